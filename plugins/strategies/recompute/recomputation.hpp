#pragma once

#include <set>
#include <string>

#include "strata/graph.hpp"

namespace recompute {

/// The values that the backward pass recomputes instead of stashing them.
struct RecomputationPlan {
  /// Number of consecutive blocks that are recomputed together, from the inputs of the first of them.
  int blocks_together = 1;
  /// Ops whose results are recomputed. Empty: all ops.
  std::set<std::string> ops;
  /// False: the last block is not recomputed, because its backward pass starts right after its forward pass.
  bool last_block = false;
};

/// Redirects backward nodes from forward nodes to clones of them, for forward nodes in the same group of blocks. Each
/// clone stands right before its first reader. A clone has the forward node's name, so it draws the same random
/// numbers.
void recompute(strata::Graph& graph, const RecomputationPlan& plan);

}  // namespace recompute
