#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// The chunk of every block and the stage of every chunk, along one axis. Without a pipeline strategy there is one
/// chunk on one stage.
struct Stages {
  /// The pipeline axis. Empty if there is one stage.
  Axis axis;
  int count = 1;
  std::vector<int> chunk_of_block;
  std::vector<int> stage_of_chunk{0};
  /// The strategy that determines the schedule. Empty if there is one stage.
  std::optional<NamedStrategy> scheduler;
  bool splits_weight_gradients = false;

  [[nodiscard]] int chunk(int block) const;
  [[nodiscard]] int stage(int chunk) const { return stage_of_chunk.at(static_cast<std::size_t>(chunk)); }
  /// The stage that executes a node of the graph.
  [[nodiscard]] int stage(const Node& node) const { return stage(chunk(node.block)); }
  /// For each value, the stages whose nodes read it.
  [[nodiscard]] std::map<Value, std::set<int>> readers(const Graph& graph) const;
  /// The tasks of `stage` in order. Without `training`, forward tasks only.
  [[nodiscard]] std::vector<ScheduledTask> schedule(int stage, int micro_batches, bool training) const;
};

/// The cost of every block of the graph.
[[nodiscard]] std::vector<BlockCost> block_costs(const Graph& graph, const OpRegistry& registry);

/// Asks the strategies for the placement of blocks. \throws PluginError if two strategies answer, or if the answer does
/// not place these blocks.
[[nodiscard]] Stages place_blocks(const Graph& graph, const OpRegistry& registry, const Mesh& mesh,
                                  const std::vector<NamedStrategy>& strategies);

}  // namespace strata::host
