#include "shared/group.hpp"

#include <algorithm>

namespace strata::communicators {

int Group::index_of(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace strata::communicators
