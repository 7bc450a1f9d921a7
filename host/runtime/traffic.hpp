#pragma once

#include <string>

#include "runtime/prepared_program.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// What traffic is counted by: "all_reduce dp", "send pp".
[[nodiscard]] std::string traffic_key(const Instruction& instruction);

/// Counts what a launch of the instruction hands to the communicator: collectives by the usual ring count of bytes,
/// what is sent; nothing for other instructions.
void count_traffic(const Program& program, const PreparedInstruction& prepared);

}  // namespace strata::host
