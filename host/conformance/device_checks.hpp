#pragma once

#include "strata/device.hpp"

namespace strata::host {

/// \file
/// The cases of the checks of devices, apart from kernels. Each throws CheckFailed that says what was found.

/// Memory is aligned and zeroed.
void try_memory(Device& device);
/// Copies of rows, of parts, and clearing.
void try_copies(Device& device);
/// Events order streams. Host memory may be reused when the call that copies from it returns.
void try_streams(Device& device);
/// Reductions add in the order of their sources, in f32 for short types, also in place of a source.
void try_reductions(Device& device);

}  // namespace strata::host
