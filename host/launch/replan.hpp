#pragma once

#include <string>

#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// The best plan for other machines than a run was made for.
struct Replanned {
  int ranks = 0;
  /// Its configuration: replanned.toml in the run's output folder, which the hosts share.
  std::string file;
  /// The plan in words.
  std::string plan;
};

/// Plans the run for `slots` devices of its cluster, or for fewer if no plan can use as many. If they are more than a
/// cluster of equal nodes has, it gets more nodes. Batch, seed and data stay, so the run goes on from its checkpoints.
/// \throws ConfigurationError if the run has no cluster. \throws RuntimeError if there is no plan.
[[nodiscard]] Replanned replan(const RunSetup& setup, int slots, PluginRegistry& registry);

}  // namespace strata::host
