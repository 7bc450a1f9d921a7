#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/communicator_bench.hpp"

namespace strata::testing {

/// A case that all processes of a world run together.
struct RankCase {
  std::string name;
  /// Throws if the communicator is wrong.
  std::function<void(const host::CommunicatorBench& bench, int ranks)> run;
  /// Seconds that ranks wait for each other.
  double timeout = 60;
};

[[nodiscard]] const std::vector<RankCase>& rank_cases();

}  // namespace strata::testing
