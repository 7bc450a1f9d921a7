#include "compiler/partition/messages.hpp"

#include <algorithm>

#include "strata/random.hpp"

namespace strata::host {

TaskKey task_of(const Stages& stages, const Node& node) {
  const int chunk = stages.chunk(node.block);
  if (node.phase == Phase::forward) return {Task::Kind::forward, chunk};
  const bool apart = node.phase == Phase::weight && stages.splits_weight_gradients;
  return {apart ? Task::Kind::weight : Task::Kind::backward, chunk};
}

std::string value_label(const Graph& graph, Value value, const TaskKey& task) {
  const Node& node = graph.node(value.node);
  std::string text = node.name;
  if (node.phase != Phase::forward && !node.is_leaf()) text += "." + node.op;
  if (value.result != 0) text += "." + std::to_string(value.result);
  return task.kind == Task::Kind::forward ? text : text + " (backward)";
}

Task::Kind receiving_kind(const PlacedModel& model, Value value, int to_chunk) {
  Task::Kind first = Task::Kind::weight;
  for (const GraphIndex::Use& use : model.index.uses.at(value)) {
    const TaskKey reader = task_of(model.stages, *use.node);
    if (reader.chunk == to_chunk) first = std::min(first, reader.kind);
  }
  return first;
}

StageMessage stage_message(const PlacedModel& model, Value value, int to_chunk) {
  const TaskKey from = task_of(model.stages, model.graph.node(value.node));
  StageMessage message;
  message.name = value_label(model.graph, value, from) + " to chunk " + std::to_string(to_chunk);
  message.receiver = {receiving_kind(model, value, to_chunk), to_chunk};
  // A number for each pair of tasks. No task sends to itself, so the number is not 0.
  const auto number = [&](const TaskKey& task) {
    const int kind = static_cast<int>(task.kind) - static_cast<int>(Task::Kind::forward);
    return kind * static_cast<int>(model.stages.stage_of_chunk.size()) + task.chunk;
  };
  const int tasks = 3 * static_cast<int>(model.stages.stage_of_chunk.size());
  message.channel = number(from) * tasks + number(message.receiver);
  // The id uses the node's number, which both stages share. The node's name need not be unique.
  message.id =
      random::stream_key(static_cast<std::uint64_t>(value.node), message.name, static_cast<std::uint64_t>(to_chunk));
  return message;
}

}  // namespace strata::host
