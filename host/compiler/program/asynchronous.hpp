#pragma once

#include <algorithm>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// The position after the last asynchronous instruction. Instructions from there on may wait for it.
[[nodiscard]] inline std::vector<Instruction>::const_iterator after_last_asynchronous(
    const std::vector<Instruction>& instructions) {
  return std::find_if(instructions.rbegin(), instructions.rend(), is_asynchronous).base();
}

}  // namespace strata::host
