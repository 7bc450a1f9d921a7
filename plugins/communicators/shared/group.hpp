#pragma once

#include <vector>

namespace strata::communicators {

/// The ranks of a group. Their order determines the order of pieces and of additions.
struct Group {
  /// The group's number, equal on all ranks.
  int number = 0;
  std::vector<int> ranks;

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  /// Position of `rank`, or -1.
  [[nodiscard]] int index_of(int rank) const;
};

}  // namespace strata::communicators
