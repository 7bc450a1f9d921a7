#pragma once

#include "language/step_values.hpp"
#include "language/stream.hpp"

namespace strata::cuda {

/// Kernels that come later on the stream find `values` at `to`, in device memory.
void launch_store_step_values(Stream stream, const StepValues& values, StepValues* to);

}  // namespace strata::cuda
