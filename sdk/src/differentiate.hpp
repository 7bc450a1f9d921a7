#pragma once

#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace strata {

/// True if the gradient of `node` is computed from the gradient of its first result. Such a node cannot be a loss,
/// because the result of a loss has no gradient.
[[nodiscard]] bool reads_cotangent(const Graph& graph, const OpRegistry& registry, const Node& node);

}  // namespace strata
