#pragma once

#include <cstdint>
#include <string>

#include "compiler/placement/placed_model.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/graph.hpp"

namespace strata::host {

/// The message that brings a value to another chunk. Sender and receiver compute the same one.
struct StageMessage {
  std::string name;
  std::uint64_t id = 0;
  /// The task that receives, and the number of the channel between the two tasks.
  TaskKey receiver;
  int channel = 0;
};

/// The task of a node. A W node belongs to the task of the B node beside it, whose operands are alive there, unless
/// the schedule has tasks for W nodes.
[[nodiscard]] TaskKey task_of(const Stages& stages, const Node& node);

/// Name for buffers and communications of a value in a task.
[[nodiscard]] std::string value_label(const Graph& graph, Value value, const TaskKey& task);

/// The kind of the first task of a chunk that reads the value.
[[nodiscard]] Task::Kind receiving_kind(const PlacedModel& model, Value value, int to_chunk);

[[nodiscard]] StageMessage stage_message(const PlacedModel& model, Value value, int to_chunk);

}  // namespace strata::host
