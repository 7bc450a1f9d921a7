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

/// How long a task takes; the unit is the caller's.
using TaskDuration = std::function<double(const Program&, const Task&)>;

/// Every chunk alike: forward 1, backward 2, or 1 and 1 where weight gradients are apart.
[[nodiscard]] TaskDuration equal_durations(const Stages& stages);

/// By FLOPs of the chunk's nodes of each phase, in units of a forward pass of an average chunk.
[[nodiscard]] TaskDuration flop_durations(const Graph& graph, const OpRegistry& registry, const Stages& stages);

/// The program of each coordinate along `axis` at the origin of all other axes; without an axis the first rank's.
[[nodiscard]] std::vector<const Program*> stage_programs(const Compiled& compiled, const Axis& axis);

/// Plays a step of the programs of a pipeline's stages, which exchange messages along `axis`. A task waits, before it
/// begins, for the tasks that send what it receives; collectives, prologue and epilogue take no time.
/// \throws VerificationError as simulate_timeline() does, or where a message has no sender.
[[nodiscard]] Timeline simulate_programs(const std::vector<const Program*>& programs, const Axis& axis,
                                         const TaskDuration& duration);

}  // namespace strata::host
