#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/named_strategy.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// Which blocks of the model run where: chunks of blocks on stages along one axis. Without a strategy that places
/// blocks there is one chunk on one stage.
struct Stages {
  /// Empty where there is one stage.
  Axis axis;
  int count = 1;
  std::vector<int> chunk_of_block;
  std::vector<int> stage_of_chunk{0};
  /// Gives the order of work; none where there is one stage only.
  std::optional<NamedStrategy> scheduler;
  bool splits_weight_gradients = false;

  [[nodiscard]] int chunk(int block) const;
  [[nodiscard]] int stage(int chunk) const { return stage_of_chunk.at(static_cast<std::size_t>(chunk)); }
  /// The stage that a node of the graph runs on.
  [[nodiscard]] int stage(const Node& node) const { return stage(chunk(node.block)); }
  /// By value: the stages whose nodes read it.
  [[nodiscard]] std::map<Value, std::set<int>> readers(const Graph& graph) const;
  /// The tasks of `stage` in order; only forward ones where the graph has no gradients.
  [[nodiscard]] std::vector<ScheduledTask> schedule(int stage, int micro_batches, bool training) const;
};

/// What every block of the graph costs.
[[nodiscard]] std::vector<BlockCost> block_costs(const Graph& graph, const OpRegistry& registry);

/// Asks the strategies where blocks go. \throws ConfigurationError where two answer, or where the answer is not a
/// placement of these blocks.
[[nodiscard]] Stages place_blocks(const Graph& graph, const OpRegistry& registry, const Mesh& mesh,
                                  const std::vector<NamedStrategy>& strategies);

}  // namespace strata::host
