#pragma once

#include <functional>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/placement/stages.hpp"
#include "reports/timeline.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

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
