#include "plan/find_plans.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "plan/plan_evaluation.hpp"

namespace strata::host {
namespace {

/// On fewer devices pipelines are short, so that an estimate costs little more than its bounds.
constexpr int kFewestDevicesForBounds = 64;

/// Fills in what the machines decide.
PlanSearchSettings on_machines(PlanSearchSettings settings, const PlanSpace& space, const Cluster& cluster) {
  settings.threads = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  settings.memory_bytes = cluster.least_memory_bytes(space.devices());
  return settings;
}

PlanEvaluation evaluation_by(const PlanEvaluator& evaluator) {
  return {{},
          [&](const PlanChoice& choice) { return evaluator.estimate(choice); },
          [&](const PlanChoice& choice) { return evaluator.evaluate(choice); },
          [&](const EvaluatedPlan& plan) { return evaluator.balance(plan); }};
}

}  // namespace

DevicePlans find_plans(const RunConfiguration& configuration, const InspectionTarget& target,
                       const PlanDemands& demands, PlanSearchSettings settings, PluginRegistry& registry) {
  const Cluster& cluster = target.cluster.value();
  DevicePlans found;
  found.space = std::make_unique<PlanSpace>(configuration, registry, cluster, target.vocab, demands);
  const PlanEvaluator evaluator(*found.space, registry, cluster);
  PlanEvaluation evaluation = evaluation_by(evaluator);
  if (found.space->devices() >= kFewestDevicesForBounds) {
    evaluation.bounds = [&](const PlanChoice& choice) { return evaluator.bounds(choice); };
  }
  found.plans = search_plans(*found.space, evaluation, on_machines(std::move(settings), *found.space, cluster));
  return found;
}

RefinedPlan refine_first(const DevicePlans& plans, const InspectionTarget& target, PlanSearchSettings settings,
                         PluginRegistry& registry) {
  const Cluster& cluster = target.cluster.value();
  const PlanEvaluator evaluator(*plans.space, registry, cluster);
  return refine_plan(*plans.space, plans.plans.front(), evaluation_by(evaluator),
                     on_machines(std::move(settings), *plans.space, cluster));
}

CheckedPlan check_plan(const PlanSpace& space, const PlanChoice& choice, const InspectionTarget& target,
                       PluginRegistry& registry) {
  CheckedPlan checked{.configuration = space.configuration(choice)};
  Inspection inspection = inspect(checked.configuration, registry, target);
  std::optional<std::string> fault = find_fault(inspection);
  if (fault && checked.configuration.run.checkpoint_mode == CheckpointMode::background) {
    plan_copies(inspection, CheckpointMode::foreground);
    fault = find_fault(inspection);
    if (!fault) checked.configuration.run.checkpoint_mode = CheckpointMode::foreground;
  }
  checked.fault = fault.value_or("");
  return checked;
}

std::optional<RunConfiguration> check_first(DevicePlans& plans, const InspectionTarget& target,
                                            PluginRegistry& registry) {
  while (plans.works()) {
    EvaluatedPlan& first = plans.plans.front();
    CheckedPlan checked = check_plan(*plans.space, first.choice, target, registry);
    if (checked.fault.empty()) return std::move(checked.configuration);
    first.prediction.reset();
    first.refusal = std::move(checked.fault);
    std::rotate(plans.plans.begin(), plans.plans.begin() + 1, plans.plans.end());
  }
  return std::nullopt;
}

int fewer_devices(int devices) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(devices - 1))); }

int fewer_measured_ranks(const Cluster& cluster, int ranks) {
  const NodeGroup& first = cluster.groups.front();
  if (cluster.groups.size() > 1 || first.nodes > 1 || first.cores == 0) return 0;
  int fewer = 0;
  for (const MeasuredPoint& point : first.device.points) {
    const bool is_kernel = point.ranks == 1 && point.work != "copy";
    if (is_kernel && point.busy < ranks) fewer = std::max(fewer, point.busy);
  }
  return fewer;
}

}  // namespace strata::host
