#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/cluster.hpp"
#include "compiler/compile.hpp"
#include "compiler/program/communication_trace.hpp"
#include "plan/alike_blocks.hpp"

namespace strata::host {

/// No simulation of a plan finds less.
struct PlanBounds {
  double seconds = 0;
  /// Memory of the fullest rank.
  std::int64_t bytes = 0;
};

/// How long a stream of a rank is busy.
struct BusyStream {
  double per_micro_batch = 0;
  double per_step = 0;
};

/// The work of a rank in a step, as if the rank never had to wait.
struct RankWork {
  BusyStream kernels;
  /// The part of the kernels that belongs to forward passes, of one micro-batch.
  double forward = 0;
  /// Collectives of one group run one after the other.
  std::map<Counterparts, BusyStream> collectives;
  /// Values of parameters and states of the optimizer on the device, without padding.
  double bytes = 0;
};

/// The work of a rank of the first class, averaged over the variants of the step.
[[nodiscard]] RankWork rank_work(const Compiled& compiled, const OpRegistry& registry, const Cluster& cluster);

/// The alike blocks of a model on the stages of its pipeline.
struct DealtBlocks {
  DealtBlocks(const Stages& stages, const AlikeBlocks& alike);

  /// By stage: its alike blocks, and those that a micro-batch passes before it first comes to the stage.
  std::vector<int> own;
  std::vector<int> before;
  int count = 0;
};

/// Bounds of a step from the work on models that have one and two of the alike blocks and no pipeline. Ranks share the
/// work of a model at best equally, none waits for data, and each stage waits for the first forward passes of those
/// before it.
[[nodiscard]] PlanBounds plan_bounds(const RankWork& one, const RankWork& two, const DealtBlocks& blocks,
                                     int micro_batches);

}  // namespace strata::host
