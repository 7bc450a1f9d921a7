#pragma once

#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::communicators {

/// "all_reduce 'bucket 3' (id 17)".
[[nodiscard]] std::string describe(const CollectiveCall& call, const std::string& name);
/// "send 'x' (id 4) to rank 2", "receive 'x' (id 4) from rank 2".
[[nodiscard]] std::string describe_send(const MessageCall& call, const std::string& name);
[[nodiscard]] std::string describe_receive(const MessageCall& call, const std::string& name);

/// What is wrong with `call` by itself in a group of `size` ranks, at position `index`; empty if nothing is.
[[nodiscard]] std::string find_misuse(const CollectiveCall& call, int size, int index);

/// \throws RuntimeError unless `ranks` are different ones out of `rank_count`, `rank` among them.
void require_group(const std::vector<int>& ranks, int rank, int rank_count);

}  // namespace strata::communicators
