#pragma once

#include <optional>
#include <vector>

#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// The op of a node as filters see it. `space`, `mixing`: the op's, for the node. The result points into `mixing`.
[[nodiscard]] RuleTarget rule_target(const Node& node, const IterationSpace& space,
                                     const std::optional<PositionMixing>& mixing);

/// A value at rest as filters see it. It points into the graph.
[[nodiscard]] RuleTarget rule_target(const Graph& graph, Value value);

/// The answers of all filters for the op of a node. Ops of equal shapes have equal layouts if the answers are equal.
[[nodiscard]] std::vector<bool> filter_answers(const std::vector<Rule>& rules, const OpRegistry& registry,
                                               const Graph& graph, const Node& node);

/// The same for a value at rest.
[[nodiscard]] std::vector<bool> filter_answers(const std::vector<Rule>& rules, const Graph& graph, Value value);

}  // namespace strata::host
