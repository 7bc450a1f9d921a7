#pragma once

#include <string>

#include "runtime/prepared_program.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// The key under which an instruction's traffic is counted, such as "all_reduce dp" or "send pp".
[[nodiscard]] std::string traffic_key(const Instruction& instruction);

/// Counts the bytes that a launch of the instruction sends. Collectives count as ring algorithms do (bytes_sent).
/// Instructions without communication count nothing.
void count_traffic(const Program& program, const PreparedInstruction& prepared);

}  // namespace strata::host
