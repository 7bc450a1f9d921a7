#pragma once

#include <cstdint>
#include <string>

#include "strata/communicator.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// What traffic is counted by: "all_reduce dp", "send pp".
[[nodiscard]] std::string traffic_key(const Instruction& instruction);

/// Counts one call that this rank makes in a group of `ranks`, by the usual ring count of bytes.
void count(Traffic& traffic, const CollectiveCall& call, int ranks);
void count(Traffic& traffic, const MessageCall& sent);

}  // namespace strata::host
