#include "simulate/short_step.hpp"

#include <algorithm>
#include <utility>

#include "compiler/order/order.hpp"

namespace strata::host {
namespace {

constexpr int kFewestMicroBatches = 3;

/// Two steps that differ in one round of the pipeline, and the rounds that the longer one lacks.
struct Rounds {
  Rounds(int whole, int stages, int shorter)
      : less(std::max(shorter * stages, kFewestMicroBatches) + whole % stages),
        more(less + stages),
        missing((whole - more) / stages) {}

  int less;
  int more;
  int missing;
};

}  // namespace

Compiled with_micro_batches(Compiled compiled, int micro_batches) {
  for (std::size_t i = 0; i < compiled.programs.size(); ++i) {
    order_tasks(compiled.programs[i], compiled.stages.schedule(compiled.classes[i].stage, micro_batches, true),
                micro_batches);
  }
  return compiled;
}

StepPrediction simulate_short_step(CompileRequest request, const Cluster& cluster, int stages, ShortStep wanted) {
  const std::int64_t samples = request.micro_batch * make_stack(request.strategies).replicas;
  const auto whole = static_cast<int>(request.global_batch / samples);
  const Rounds planned(whole, stages, wanted.planned);
  if (planned.missing < 1 || request.global_batch % samples != 0) {
    return simulate_step(compile(request), *request.registry, cluster);
  }
  request.global_batch = planned.more * samples;
  Compiled compiled = compile(request);
  // It points to the programs, which stay where they are when `compiled` is moved.
  const TimedPrograms times = time_programs(compiled, *request.registry, cluster);
  const auto simulate = [&](int micro_batches) {
    compiled = with_micro_batches(std::move(compiled), micro_batches);
    return simulate_step(compiled, times, *request.registry, cluster);
  };
  const Rounds timed(whole, stages, wanted.timed);
  if (timed.missing < 1) return simulate(whole);
  const StepPrediction longer = simulate(timed.more);
  return extrapolate(simulate(timed.less), longer, timed.missing);
}

}  // namespace strata::host
