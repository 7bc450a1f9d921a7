#pragma once

#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::communicators {

/// Why `call` is invalid for position `index` in a group of `size` ranks. Empty if it is valid.
[[nodiscard]] std::string find_misuse(const CollectiveCall& call, int size, int index);

/// The properties that all ranks of a collective must agree on: "all_reduce sum of 100 f32".
[[nodiscard]] std::string describe_contents(const CollectiveCall& call);
/// True if the calls of two ranks describe the same collective. Ids are not compared.
[[nodiscard]] bool agree(const CollectiveCall& left, const CollectiveCall& right);

/// True if one of two collectives writes memory that the other reads or writes. `size` and `other_size`: ranks of their
/// groups.
[[nodiscard]] bool conflict(const CollectiveCall& one, int size, const CollectiveCall& other, int other_size);

/// \throws RuntimeError unless `ranks` are distinct, below `rank_count`, and include `rank`.
void require_group(const std::vector<int>& ranks, int rank, int rank_count);

/// A list in words: "[0, 2, 5]".
[[nodiscard]] std::string rank_list(const std::vector<int>& ranks);

}  // namespace strata::communicators
