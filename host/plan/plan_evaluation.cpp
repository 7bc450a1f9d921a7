#include "plan/plan_evaluation.hpp"

#include <algorithm>

#include "simulate/described_device.hpp"
#include "simulate/measured.hpp"
#include "strata/error.hpp"

namespace strata::host {

EvaluatedPlan PlanEvaluator::evaluate(const PlanChoice& choice, bool is_trial) const {
  EvaluatedPlan plan;
  plan.choice = choice;
  try {
    const RunSetup setup = [&] {
      const std::lock_guard lock(mutex_);
      return space_.prepare_trial(choice, registry_);
    }();
    const std::int64_t least = cluster_.least_memory_bytes(setup.stack.mesh.rank_count());
    const std::unique_ptr<Device> device = described_device(cluster_.name, least, *setup.ops, measured_ops(cluster_));
    CompileRequest request = setup.request(GraphMode::training, setup.sizes(space_.data()));
    request.device = device.get();
    request.is_trial = is_trial;
    const Compiled compiled = setup.compile(request);
    plan.prediction = simulate_step(compiled, *setup.ops, cluster_);
    plan.excess_bytes = std::max<std::int64_t>(plan.prediction->peak_bytes - least, 0);
  } catch (const Error& error) {
    plan.refusal = error.what();
  }
  return plan;
}

}  // namespace strata::host
