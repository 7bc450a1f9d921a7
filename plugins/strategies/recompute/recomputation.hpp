#pragma once

#include <set>
#include <string>

#include "strata/graph.hpp"

namespace recompute {

/// What is computed again in the backward pass instead of being kept.
struct RecomputationPlan {
  /// Blocks that are recomputed together, from what the first of them is given.
  int blocks_together = 1;
  /// Ops whose results are recomputed; empty: all.
  std::set<std::string> ops;
  /// False: the results of the last block, whose backward pass follows at once, are kept.
  bool last_block = false;
};

/// Lets every backward node read clones of the forward nodes of its own group of blocks; each clone stands right before
/// the first node that reads it. A clone has the forward node's name, and so draws the same random numbers.
void recompute(strata::Graph& graph, const RecomputationPlan& plan);

}  // namespace recompute
