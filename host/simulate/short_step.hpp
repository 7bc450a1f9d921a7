#pragma once

#include "compiler/compile.hpp"
#include "simulate/prediction.hpp"

namespace strata::host {

/// How short steps stand for a long one, in rounds of the pipeline: each is as many micro-batches as stages. A step has
/// three micro-batches at least.
struct ShortStep {
  /// The step that is compiled has one round more. It has the memory of the long one, unless the schedule needs memory
  /// for all micro-batches.
  int planned = 2;
  /// The shorter of the two steps that are simulated. Stages with unequal work need more rounds until they wait for the
  /// slowest of them in each round.
  int timed = 2;
};

/// A training step in which every rank orders its tasks for another number of micro-batches. It has the memory plans of
/// `compiled`, so it can be simulated, but not run.
[[nodiscard]] Compiled with_micro_batches(Compiled compiled, int micro_batches);

/// Compiles a step and predicts it. Of a step with many micro-batches two shorter ones are simulated. What a round of
/// the pipeline costs more, every missing round costs too.
[[nodiscard]] StepPrediction simulate_short_step(CompileRequest request, const Cluster& cluster, int stages,
                                                 ShortStep wanted = {});

}  // namespace strata::host
