#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/attributes.hpp"
#include "strata/export.hpp"
#include "strata/kernel.hpp"

/// \file
/// The op `group_squares`, which sums the squares of the gradients of each group of parameters apart.

namespace strata {

/// Neighbouring elements of a rank's piece of a bucket that belong to one group.
struct GroupRun {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  std::int64_t group = 0;
};

/// Elements of a whole bucket up to `end`, from the end of the group before.
struct GroupEnd {
  std::int64_t end = 0;
  std::int64_t group = 0;
};

/// The attributes of `group_squares` for a bucket whose elements belong to `ends`, ascending, of `count` groups.
[[nodiscard]] STRATA_API Attributes group_attributes(const std::vector<GroupEnd>& ends, std::int64_t count);

/// The runs of a rank's piece. `op` has group_attributes(), and iterates "flat", the rank's piece of the bucket.
[[nodiscard]] STRATA_API std::vector<GroupRun> group_runs(const OpInstance& op);

}  // namespace strata
