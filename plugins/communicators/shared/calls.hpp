#pragma once

#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::communicators {

/// What is wrong with `call` by itself in a group of `size` ranks, at position `index`; empty if nothing is.
[[nodiscard]] std::string find_misuse(const CollectiveCall& call, int size, int index);

/// \throws RuntimeError unless `ranks` are different ones out of `rank_count`, `rank` among them.
void require_group(const std::vector<int>& ranks, int rank, int rank_count);

/// "[0, 2, 5]".
[[nodiscard]] std::string rank_list(const std::vector<int>& ranks);

}  // namespace strata::communicators
