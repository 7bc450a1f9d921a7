#pragma once

#include <compare>
#include <map>
#include <vector>

#include "strata/strategy.hpp"

namespace strata::host {

/// \file
/// When every stage of a pipeline does what, if work takes a known time and messages none: the drawing, the idle time
/// and the micro-batches in flight of a schedule.

/// A piece of a stage's work and the time it takes, in the caller's unit.
struct TimedTask {
  ScheduledTask task;
  double duration = 0;
};

/// A phase of a chunk, whatever the micro-batch.
struct ChunkPhase {
  Phase phase = Phase::forward;
  int chunk = 0;

  auto operator<=>(const ChunkPhase&) const = default;
};

/// For what each phase of a chunk waits, of the same micro-batch.
using WorkDependencies = std::map<ChunkPhase, std::vector<ChunkPhase>>;

/// Chunks that form a chain: forward waits for the chunk before, backward for the chunk behind and its own forward,
/// weight gradients for their own backward.
[[nodiscard]] WorkDependencies chain_dependencies(int chunks);

/// One piece of work, placed in time.
struct TimelineEvent {
  ScheduledTask task;
  double begin = 0;
  double end = 0;
};

struct StageTimeline {
  /// In order.
  std::vector<TimelineEvent> events;
  double busy = 0;
  /// The most micro-batches, each counted once per chunk, whose forward pass is done and whose backward pass is not.
  int in_flight = 0;
  /// The same until weight gradients are done too: their operands are kept as long.
  int kept = 0;
};

struct Timeline {
  std::vector<StageTimeline> stages;
  double makespan = 0;

  /// Time in which all stages together idle, over the time in which they work.
  [[nodiscard]] double bubble_fraction() const;
};

/// Plays the stages' work, each stage in its own order and as early as what it waits for is done.
/// \throws VerificationError if a stage waits for ever, or work is listed twice.
[[nodiscard]] Timeline simulate_timeline(const std::vector<std::vector<TimedTask>>& stages,
                                         const WorkDependencies& dependencies);

}  // namespace strata::host
