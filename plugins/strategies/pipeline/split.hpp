#pragma once

#include <vector>

#include "settings.hpp"
#include "strata/strategy.hpp"

namespace pipeline {

/// Divides the blocks, in order, into `chunks` runs. \return the number of blocks of each.
/// \throws strata::ConfigurationError if there are fewer blocks than chunks, or not as many as a given split says.
[[nodiscard]] std::vector<int> split_blocks(const std::vector<strata::BlockCost>& blocks, const Settings& settings);

/// The contiguous split whose largest part is least and, among those, whose parts differ least (least sum of squares).
/// There are at least as many costs as parts; none is negative. \return the number of costs of each part.
[[nodiscard]] std::vector<int> balanced_split(const std::vector<double>& costs, int parts);

}  // namespace pipeline
