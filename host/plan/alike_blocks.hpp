#pragma once

#include <vector>

#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// Consecutive blocks of a forward graph that differ in names and parameters only, such as the layers of a transformer.
/// Each reads values of the one before it in the same way.
struct AlikeBlocks {
  int first = 0;
  int count = 0;
};

/// The longest run of alike blocks that the filters of the rules do not tell apart. Its count is 0 if the graph has
/// none whose blocks could be left out.
[[nodiscard]] AlikeBlocks find_alike_blocks(const Graph& graph, const OpRegistry& registry,
                                            const std::vector<Rule>& rules);

/// True if filters of the rules tell neighbours apart that else are alike.
[[nodiscard]] bool tell_apart_alike_blocks(const Graph& graph, const OpRegistry& registry,
                                           const std::vector<Rule>& rules);

/// The graph without the last `left_out` of the alike blocks, with their parameters and sinks. What reads the last one
/// reads the last that stays. `left_out` is less than their count.
[[nodiscard]] Graph without_blocks(const Graph& graph, const AlikeBlocks& alike, int left_out);

}  // namespace strata::host
