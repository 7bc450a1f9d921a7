#pragma once

#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// Outputs whose earlier contents an instruction reads, although they are not among its inputs: what it adds to, and
/// what the optimizer works on. An update that is skipped leaves them as they are, so that all of them count.
[[nodiscard]] std::vector<BufferId> outputs_read(const Instruction& instruction);

}  // namespace strata::host
