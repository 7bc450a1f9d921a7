#pragma once

#include <vector>

#include "settings.hpp"
#include "strata/strategy.hpp"

namespace pipeline {

/// Divides the blocks, in order, into `chunks` runs. \return the number of blocks in each. \throws
/// strata::ConfigurationError if there are fewer blocks than chunks, or if a given split has another number of blocks.
[[nodiscard]] std::vector<int> split_blocks(const std::vector<strata::BlockCost>& blocks, const Settings& settings);

/// The contiguous split with the smallest largest part, and among those the one with the smallest sum of squares. There
/// must be at least as many costs as parts, and no cost may be negative. \return the number of costs in each part.
[[nodiscard]] std::vector<int> balanced_split(const std::vector<double>& costs, int parts);

}  // namespace pipeline
