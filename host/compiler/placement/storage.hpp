#pragma once

#include <vector>

#include "compiler/named_strategy.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// Asks the strategies how every parameter of the graph is stored. Axes are put in mesh order; those of one rank, and
/// those that shard the parameter's compute layout already, are left out. \return by position in Graph::parameters.
/// \throws ConfigurationError where two strategies answer for a parameter, or where an answer cannot be.
[[nodiscard]] std::vector<ParameterStorage> resolve_storage(const Graph& graph, const LayoutRules& rules,
                                                            const std::vector<NamedStrategy>& strategies);

}  // namespace strata::host
