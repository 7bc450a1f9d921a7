#pragma once

#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Lets results reuse the memory of operands that no later instruction reads, if the op allows it. An all_reduce always
/// works in place.
void reuse_operands_in_place(Program& program, const OpRegistry& registry);

}  // namespace strata::host
