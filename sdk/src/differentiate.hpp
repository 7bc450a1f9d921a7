#pragma once

#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata {

/// True if the gradient of the op of `node` needs the gradient of the node's first result. Then the node can not be a
/// loss, which has none.
[[nodiscard]] bool reads_cotangent(const Graph& graph, const OpRegistry& registry, const Node& node);

}  // namespace strata
