#pragma once

#include <cstdint>
#include <vector>

#include "compiler/compile.hpp"
#include "strata/dataset.hpp"

namespace strata::host {

/// The part of a step's data that the ranks of this process load.
struct BatchNeeds {
  /// By input of the dataset: true if a rank loads it.
  std::vector<bool> inputs;
  /// Samples within the step's batch, ascending.
  std::vector<std::int64_t> samples;
};

/// Collects what the programs of `ranks` load.
[[nodiscard]] BatchNeeds batch_needs(const Compiled& compiled, const std::vector<int>& ranks,
                                     const std::vector<DatasetInput>& inputs);

}  // namespace strata::host
