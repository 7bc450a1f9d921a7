#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/placement/stages.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// \file
/// Simulates a pipeline schedule for known task durations and instant messages. The result shows when each stage runs
/// each task, its idle time and its micro-batches in flight.

/// A task of a stage and its duration, in the caller's unit.
struct TimedTask {
  ScheduledTask task;
  double duration = 0;
  /// The communication within the task, such as "2 all_reduce over tp".
  std::string communication = {};
};

/// A phase of a chunk, for any micro-batch.
struct ChunkPhase {
  Phase phase = Phase::forward;
  int chunk = 0;

  auto operator<=>(const ChunkPhase&) const = default;
};

/// For each phase of a chunk, the phases of chunks that it depends on in the same micro-batch.
using WorkDependencies = std::map<ChunkPhase, std::vector<ChunkPhase>>;

/// The phase and chunk of a task. Empty for tasks that run once per step.
[[nodiscard]] std::optional<ChunkPhase> chunk_phase(const Task& task);

/// One task with its simulated time.
struct TimelineEvent {
  ScheduledTask task;
  double begin = 0;
  double end = 0;
  /// That of its TimedTask.
  std::string communication = {};
};

/// What a task receives from another stage.
struct TimelineMessage {
  std::size_t sender = 0;
  std::size_t receiver = 0;
  /// The end of the task that sends it, and the begin of the task that needs it.
  double sent = 0;
  double needed = 0;
  int micro_batch = 0;
};

struct StageTimeline {
  /// Sets `in_flight` and `kept` to what `events` say.
  void count_micro_batches();

  /// Tasks in the order of time.
  std::vector<TimelineEvent> events;
  double busy = 0;
  /// Largest number of micro-batches in flight: forward pass done, backward pass not done. Counts each chunk
  /// separately.
  int in_flight = 0;
  /// Largest number of micro-batches with stashed operands: forward pass done, backward pass or weight gradients not
  /// done.
  int kept = 0;
};

struct Timeline {
  std::vector<StageTimeline> stages;
  std::vector<TimelineMessage> messages;
  double makespan = 0;
  /// True if messages and other communication take time.
  bool times_communication = false;

  /// Total idle time of all stages divided by their total busy time.
  [[nodiscard]] double bubble_fraction() const;
};

/// Runs each stage's tasks in order, each as early as its dependencies permit. \throws VerificationError if a stage
/// waits forever, or if a task is listed twice.
[[nodiscard]] Timeline simulate_timeline(const std::vector<std::vector<TimedTask>>& stages,
                                         const WorkDependencies& dependencies);

/// \file
/// The timeline as a file for other programs.

/// The timeline as a standalone SVG picture for light and dark backgrounds, of bounded width. Each stage is a row, and
/// each task is a box with its phase and the number of its micro-batch if there is room. Phases differ in colour and in
/// hatching. Lines between rows are messages, and a dark edge is communication within a task. Below `title` are the
/// bubble fraction and a legend.
[[nodiscard]] std::string timeline_svg(const Timeline& timeline, const std::string& title);

/// The timeline in Chrome's Trace Event Format, which Perfetto opens. Each stage is a process. One unit of time is a
/// millisecond.
[[nodiscard]] std::string timeline_trace(const Timeline& timeline);

/// The duration of a task, in the caller's unit.
using TaskDuration = std::function<double(const Program&, const Task&)>;

/// Equal durations for all chunks: forward 1 and backward 2, or 1 and 1 if weight gradients are separate tasks.
[[nodiscard]] TaskDuration equal_durations(const Stages& stages);

/// Durations proportional to the FLOPs of the chunk's nodes in each phase. The unit is the forward pass of an average
/// chunk.
[[nodiscard]] TaskDuration flop_durations(const Graph& graph, const OpRegistry& registry, const Stages& stages);

/// The program of each coordinate along `axis`, with all other coordinates 0. If `axis` is empty, the program of rank
/// 0.
[[nodiscard]] std::vector<const Program*> stage_programs(const Compiled& compiled, const Axis& axis);

/// Simulates a step of pipeline stages whose programs exchange messages along `axis`. Before a task begins, it waits
/// for all tasks that send messages to it. Collectives, prologue and epilogue take no time. \throws VerificationError
/// like simulate_timeline(), or if a message has no sender.
[[nodiscard]] Timeline simulate_programs(const std::vector<const Program*>& programs, const Axis& axis,
                                         const TaskDuration& duration);

/// The same without events and messages. Of many micro-batches it simulates some, and computes the time of the others.
[[nodiscard]] Timeline summarize_programs(const std::vector<const Program*>& programs, const Axis& axis,
                                          const TaskDuration& duration);

}  // namespace strata::host
