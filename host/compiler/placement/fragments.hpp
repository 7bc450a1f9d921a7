#pragma once

#include <vector>

#include "compiler/stack.hpp"
#include "strata/graph.hpp"

namespace strata::host {

/// The numbers that strategies give one parameter (ReplicaHooks::fragment), by strategy.
using Fragments = std::vector<int>;

/// By position in Graph::parameters.
[[nodiscard]] std::vector<Fragments> parameter_fragments(const Graph& graph, const OpRegistry& registry,
                                                         const std::vector<NamedStrategy>& strategies);

/// Whether a strategy wants a bucket of its own for the parameter (GradientHooks::wants_own_bucket), by position in
/// Graph::parameters. Only trained parameters are asked for.
[[nodiscard]] std::vector<bool> own_buckets(const Graph& graph, const OpRegistry& registry,
                                            const std::vector<NamedStrategy>& strategies);

}  // namespace strata::host
