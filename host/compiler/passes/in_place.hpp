#pragma once

#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Lets results take over the memory of operands that nobody reads afterwards, where the op allows it; an all_reduce
/// always may. Runs before the schedule makes variants of tasks.
void reuse_operands_in_place(Program& program, const OpRegistry& registry);

}  // namespace strata::host
