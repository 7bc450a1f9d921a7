#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/placement/storage.hpp"
#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/mesh.hpp"
#include "strata/op.hpp"
#include "strata/strategy.hpp"

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

/// Asks the strategies for the placement of blocks of these costs. \throws PluginError if two strategies answer, or if
/// the answer does not place these blocks.
[[nodiscard]] Stages place_blocks(const std::vector<BlockCost>& costs, const Mesh& mesh,
                                  const std::vector<NamedStrategy>& strategies);

/// Ranks that share one program. Everything else that depends on a rank is resolved from its coordinates at run time.
struct RankClass {
  /// The stage of the ranks.
  int stage = 0;
  /// False for ranks that do not update, because another rank does (ParameterStorage::single_writer).
  bool updates = true;
};

/// The classes of the ranks of a mesh.
struct RankClasses {
  std::vector<RankClass> classes;
  /// Index into `classes` of each rank.
  std::vector<int> of_rank;
};

[[nodiscard]] RankClasses classify_ranks(const Mesh& mesh, const Stages& stages,
                                         const std::vector<PlacedParameter>& parameters);

/// If a node reads a value that another chunk recomputes, redirects it to the stashed forward value. The other chunk's
/// backward pass, which would recompute the value, runs later. Then removes nodes that are no longer needed.
void keep_values_between_chunks(Graph& graph, const Stages& stages);

/// An evaluation pass has the values and the stages of the training step beside it, and no others. `stages`: those of
/// the training step. \throws ConfigurationError if the evaluation graph has a parameter or a block that the training
/// graph lacks, or reads a parameter on a stage that does not hold it.
void require_shared_parameters(const Graph& evaluation, const Graph& training, const Stages& stages);

}  // namespace strata::host
