#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "compiler/program/short_schedule.hpp"
#include "reports/timeline.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Half of the micro-batches that summarize_programs() simulates in rounds, which is more than any phase needs.
constexpr int kSimulatedMicroBatches = 128;

/// The peer of a Send or Receive.
const Peer& peer_of(const Send& send) { return send.to; }
const Peer& peer_of(const Receive& receive) { return receive.from; }

/// Calls `visit` for every message between stages that is a `Message`, which is Send or Receive.
template <class Message, class Visit>
void for_each_message(const std::vector<const Program*>& programs, const Axis& axis, const Visit& visit) {
  for (const Program* program : programs) {
    for (const Task& task : program->tasks) {
      const std::optional<ChunkPhase> at = chunk_phase(task);
      if (!at) continue;
      for (const Instruction& instruction : task.instructions) {
        const auto* message = instruction.as<Message>();
        // Messages of a ring belong to one op and do not connect stages.
        const bool between_stages =
            message != nullptr && peer_of(*message).axis == axis && !peer_of(*message).is_relative;
        if (between_stages) visit(*at, instruction);
      }
    }
  }
}

WorkDependencies message_dependencies(const std::vector<const Program*>& programs, const Axis& axis) {
  std::map<std::uint64_t, ChunkPhase> senders;
  for_each_message<Send>(programs, axis, [&](const ChunkPhase& at, const Instruction& message) {
    senders.try_emplace(communication_id(message), at);
  });
  WorkDependencies dependencies;
  for_each_message<Receive>(programs, axis, [&](const ChunkPhase& at, const Instruction& message) {
    const auto sender = senders.find(communication_id(message));
    if (sender == senders.end()) {
      throw VerificationError("no stage sends '" + message.name + "', which the " + std::string(to_string(at.phase)) +
                              " task of chunk " + std::to_string(at.chunk) + " receives");
    }
    std::vector<ChunkPhase>& needed = dependencies[at];
    if (!contains(needed, sender->second)) needed.push_back(sender->second);
  });
  return dependencies;
}

/// The communication of a run of the task, less the messages between stages: "2 all_reduce over tp".
std::string communication_within(const Task& task, const TaskInstance& run) {
  std::map<std::string, int> counts;
  for (const Instruction& each : task.instructions) {
    const auto* send = each.as<Send>();
    const bool is_within = each.is<Collective>() || (send != nullptr && send->to.is_relative);
    if (is_within && run.runs(each)) ++counts[work_name(each) + " over " + join(communication_axes(each), "+")];
  }
  std::vector<std::string> parts;
  for (const auto& [what, count] : counts) parts.push_back(std::to_string(count) + " " + what);
  return join(parts, ", ");
}

std::vector<TimedTask> timed_tasks(const Program& program, const TaskDuration& duration) {
  std::vector<TimedTask> tasks;
  // All runs of a task but the last one communicate alike.
  std::map<std::pair<int, bool>, std::string> communication;
  for (const TaskInstance& instance : program.schedule) {
    const Task& task = program.tasks.at(static_cast<std::size_t>(instance.task));
    const auto at = chunk_phase(task);
    if (!at) continue;
    const auto [found, is_new] = communication.try_emplace({instance.task, instance.is_last});
    if (is_new) found->second = communication_within(task, instance);
    tasks.push_back({{at->phase, instance.micro_batch, at->chunk}, duration(program, task), found->second});
  }
  return tasks;
}

/// FLOPs of the graph's nodes, summed by chunk and phase.
std::map<ChunkPhase, double> flops_by_phase(const Graph& graph, const OpRegistry& registry, const Stages& stages) {
  std::map<ChunkPhase, double> flops;
  for (const Node& node : graph.nodes()) {
    if (node.is_leaf()) continue;
    flops[{node.phase, stages.chunk(node.block)}] += registry.get(node.op).cost(graph, node).flops;
  }
  return flops;
}

}  // namespace

std::optional<ChunkPhase> chunk_phase(const Task& task) {
  switch (task.kind) {
    case Task::Kind::forward:
      return ChunkPhase{Phase::forward, task.chunk};
    case Task::Kind::backward:
      return ChunkPhase{Phase::backward, task.chunk};
    case Task::Kind::weight:
      return ChunkPhase{Phase::weight, task.chunk};
    case Task::Kind::prologue:
    case Task::Kind::epilogue:
      return std::nullopt;
  }
  return std::nullopt;
}

TaskDuration equal_durations(const Stages& stages) {
  return [backward = stages.splits_weight_gradients ? 1.0 : 2.0](const Program& /*program*/, const Task& task) {
    return task.kind == Task::Kind::backward ? backward : 1.0;
  };
}

TaskDuration flop_durations(const Graph& graph, const OpRegistry& registry, const Stages& stages) {
  std::map<ChunkPhase, double> flops = flops_by_phase(graph, registry, stages);
  double forward = 0;
  int chunks = 0;
  for (const auto& [at, each] : flops) {
    if (at.phase != Phase::forward) continue;
    forward += each;
    ++chunks;
  }
  const double unit = forward > 0 ? forward / chunks : 1;
  const bool splits = stages.splits_weight_gradients;
  return [flops = std::move(flops), unit, splits](const Program& /*program*/, const Task& task) {
    const auto of_phase = [&](Phase phase) {
      const auto found = flops.find({phase, task.chunk});
      return found == flops.end() ? 0.0 : found->second / unit;
    };
    if (task.kind == Task::Kind::forward) return of_phase(Phase::forward);
    if (task.kind == Task::Kind::weight) return of_phase(Phase::weight);
    return of_phase(Phase::backward) + (splits ? 0 : of_phase(Phase::weight));
  };
}

std::vector<const Program*> stage_programs(const Compiled& compiled, const Axis& axis) {
  Coordinates at = compiled.mesh.coordinates(0);
  std::vector<const Program*> programs;
  for (int stage = 0; stage < (axis.empty() ? 1 : compiled.mesh.size(axis)); ++stage) {
    if (!axis.empty()) at[axis] = stage;
    programs.push_back(&compiled.program(compiled.mesh.rank(at)));
  }
  return programs;
}

Timeline simulate_programs(const std::vector<const Program*>& programs, const Axis& axis,
                           const TaskDuration& duration) {
  std::vector<std::vector<TimedTask>> work;
  for (const Program* program : programs) work.push_back(timed_tasks(*program, duration));
  return simulate_timeline(work, axis.empty() ? WorkDependencies{} : message_dependencies(programs, axis));
}

Timeline summarize_programs(const std::vector<const Program*>& programs, const Axis& axis,
                            const TaskDuration& duration) {
  const auto simulate_without = [&](int micro_batches) {
    std::vector<Program> shorter;
    for (const Program* program : programs) shorter.push_back(shortened(*program, micro_batches));
    std::vector<const Program*> pointers;
    for (const Program& program : shorter) pointers.push_back(&program);
    Timeline timeline = simulate_programs(pointers, axis, duration);
    timeline.messages.clear();
    for (StageTimeline& stage : timeline.stages) stage.events.clear();
    return timeline;
  };
  const int most = superfluous_micro_batches(programs);
  const int left_out = superfluous_micro_batches(programs, kSimulatedMicroBatches);
  if (left_out == 0 || left_out == most) return simulate_without(0);
  Timeline timeline = simulate_without(left_out);
  const Timeline shortest = simulate_without(most);
  const auto extend = [&](double& time, double of_shortest) {
    time += (time - of_shortest) / (most - left_out) * left_out;
  };
  extend(timeline.makespan, shortest.makespan);
  for (std::size_t i = 0; i < timeline.stages.size(); ++i) extend(timeline.stages[i].busy, shortest.stages[i].busy);
  return timeline;
}

}  // namespace strata::host
