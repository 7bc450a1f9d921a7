#pragma once

#include "strata/program.hpp"

namespace strata::host {

/// Removes instructions whose results no instruction reads, such as conversions and clones that turned out unneeded.
/// Messages stay, because their counterparts on other ranks stay.
void remove_unused_instructions(Program& program);

}  // namespace strata::host
