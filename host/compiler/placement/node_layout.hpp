#pragma once

#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// The layout that the rules assign to the iteration space of a node.
[[nodiscard]] IterationLayout node_layout(const LayoutRules& rules, const OpRegistry& registry, const Graph& graph,
                                          const Node& node);

}  // namespace strata::host
