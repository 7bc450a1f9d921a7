#pragma once

#include "strata/program.hpp"

namespace strata::host {

/// Drops instructions whose results nothing reads: conversions and clones that turned out not to be needed. Messages
/// stay, since their other end does.
void remove_unused_instructions(Program& program);

}  // namespace strata::host
