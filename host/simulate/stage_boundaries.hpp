#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulate/prediction.hpp"

namespace strata::host {

/// The number of blocks of each chunk, in order.
using ChunkBlocks = std::vector<int>;

/// As an option of the role OptionRole::chunk_blocks has it: "3,4,4,3".
[[nodiscard]] std::string split_text(const ChunkBlocks& blocks);

/// A training step whose blocks are divided in one way.
struct SimulatedSplit {
  ChunkBlocks blocks;
  StepPrediction step;
  /// Bytes of the fullest rank beyond those of a device; 0: it fits.
  std::int64_t excess_bytes = 0;
};

/// True if `one` fits and `other` does not, if one needs less memory and neither fits, or if both fit and one is
/// faster.
[[nodiscard]] bool is_better(const SimulatedSplit& one, const SimulatedSplit& other);

/// The time of the kernels of each block for one micro-batch, forward and backward, on the stage that is slowest. From
/// one compilation, in which every block is a chunk of its own. `request`: of a model whose blocks have stages.
[[nodiscard]] std::vector<double> block_seconds(CompileRequest request, const Cluster& cluster);

/// Searches the boundaries of chunks with which a step is fastest, of those that fit into memory. It begins with what
/// the strategy makes of blocks that cost their seconds, their FLOPs, or all the same. Then it moves one block from one
/// chunk to another, and the boundaries between them, as long as that helps. All numbers are those of simulated steps,
/// which are shorter if there are many micro-batches.
class BoundarySearch {
 public:
  /// `request`: with a device, and a strategy that places blocks of any cost. `seconds`: of each block. `cluster`
  /// outlives the search.
  BoundarySearch(CompileRequest request, const Cluster& cluster, const std::vector<double>& seconds);

  /// Blocks that cost their seconds.
  [[nodiscard]] const SimulatedSplit& balanced() { return simulate(balanced_); }
  /// Blocks that cost all the same.
  [[nodiscard]] const SimulatedSplit& even() { return simulate(even_); }
  [[nodiscard]] SimulatedSplit best();
  /// The split with all micro-batches of the step.
  [[nodiscard]] SimulatedSplit whole(const ChunkBlocks& blocks);
  /// Splits that were simulated.
  [[nodiscard]] std::size_t simulated() const { return known_.size(); }

 private:
  [[nodiscard]] ChunkBlocks place(const std::vector<double>& costs);
  template <class Predict>
  [[nodiscard]] SimulatedSplit predict(const ChunkBlocks& blocks, const Predict& step);
  [[nodiscard]] const SimulatedSplit& simulate(const ChunkBlocks& blocks);
  [[nodiscard]] std::vector<ChunkBlocks> neighbours(const SimulatedSplit& split) const;
  [[nodiscard]] std::vector<double> rank(const SimulatedSplit& split, const ChunkBlocks& next, std::size_t from,
                                         std::size_t to) const;

  CompileRequest request_;
  const Cluster& cluster_;
  std::vector<double> seconds_;
  /// The stages of the strategy. Splits replace their blocks.
  Stages stages_;
  ChunkBlocks balanced_;
  ChunkBlocks even_;
  ChunkBlocks by_flops_;
  std::map<ChunkBlocks, SimulatedSplit> known_;
};

}  // namespace strata::host
