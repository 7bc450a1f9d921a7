#pragma once

#include "strata/device.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Fuses instructions to save memory traffic:
/// - Pairs that a fused op names (OpDefinition::fusions), if the device has a kernel for the fused op that is not a
/// last resort.
/// - Sums whose terms are computed one after another: later terms accumulate into the first.
/// Runs before buffers share memory.
void fuse_instructions(Program& program, const OpRegistry& registry, const Device& device);

}  // namespace strata::host
