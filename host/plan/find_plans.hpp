#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_refinement.hpp"
#include "plan/plan_search.hpp"
#include "train/inspection.hpp"

namespace strata::host {

/// The plans of the planner for one number of devices.
struct DevicePlans {
  std::unique_ptr<PlanSpace> space;
  std::vector<EvaluatedPlan> plans;

  /// False if the number of devices is the reason for which there is no plan, not their memory.
  [[nodiscard]] bool is_possible() const { return !plans.empty() && plans.front().prediction; }
  [[nodiscard]] bool works() const { return !plans.empty() && plans.front().works(); }
};

/// Searches the plans of a configuration by compiling and simulating them. `target` has a cluster. Its memory is that
/// of `settings`.
[[nodiscard]] DevicePlans find_plans(const RunConfiguration& configuration, const InspectionTarget& target,
                                     const PlanDemands& demands, PlanSearchSettings settings, PluginRegistry& registry);

/// Improves the first of the plans, which works, as refine_plan() does. `target`, `settings`: as for find_plans().
[[nodiscard]] RefinedPlan refine_first(const DevicePlans& plans, const InspectionTarget& target,
                                       PlanSearchSettings settings, PluginRegistry& registry);

/// A plan after the checks of `strata check`.
struct CheckedPlan {
  /// It writes checkpoints in the foreground if host memory has no place for copies of them.
  RunConfiguration configuration;
  /// Why it cannot run. Empty: it can.
  std::string fault = {};
};

/// Compiles the plan as `strata check` does, and checks it. `target`: as for find_plans().
[[nodiscard]] CheckedPlan check_plan(const PlanSpace& space, const PlanChoice& choice, const InspectionTarget& target,
                                     PluginRegistry& registry);
/// Checks the plans that work, from the first one on. Those that cannot run become refused ones at the end, until one
/// can. \return its configuration, or empty if none works.
[[nodiscard]] std::optional<RunConfiguration> check_first(DevicePlans& plans, const InspectionTarget& target,
                                                          PluginRegistry& registry);

/// The next number of devices to try if one has no plan: the largest power of two below it, which fits most models and
/// batches. 0 after 1.
[[nodiscard]] int fewer_devices(int devices);
/// The next smaller number of ranks with which the kernels of a machine's cores were measured; 0: none. Fewer ranks may
/// be faster, because each has more cores. How much more depends on the machine.
[[nodiscard]] int fewer_measured_ranks(const Cluster& cluster, int ranks);

}  // namespace strata::host
