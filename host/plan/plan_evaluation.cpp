#include "plan/plan_evaluation.hpp"

#include <algorithm>
#include <limits>

#include "strata/error.hpp"

namespace strata::host {
namespace {

std::int64_t smallest_memory(const Cluster& cluster) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const NodeGroup& group : cluster.groups) smallest = std::min(smallest, group.device.memory_bytes);
  return smallest;
}

}  // namespace

EvaluatedPlan PlanEvaluator::evaluate(const PlanChoice& choice) const {
  EvaluatedPlan plan;
  plan.choice = choice;
  try {
    const RunSetup setup = [&] {
      const std::lock_guard lock(mutex_);
      return prepare(space_.configuration(choice), registry_);
    }();
    const Compiled compiled = setup.compile(setup.request(GraphMode::training, setup.sizes(space_.data())));
    plan.prediction = simulate_step(compiled, *setup.ops, cluster_);
    plan.excess_bytes = std::max<std::int64_t>(plan.prediction->peak_bytes - smallest_memory(cluster_), 0);
  } catch (const Error& error) {
    plan.refusal = error.what();
  }
  return plan;
}

}  // namespace strata::host
