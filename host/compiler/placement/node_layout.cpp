#include "compiler/placement/node_layout.hpp"

namespace strata::host {

IterationLayout node_layout(const LayoutRules& rules, const OpRegistry& registry, const Graph& graph,
                            const Node& node) {
  const OpDefinition& op = registry.get(node.op);
  const IterationSpace space = op.iteration(graph, node);
  const std::optional<PositionMixing> mixing = op.mixing(graph, node);
  return rules.assign({node.op, space.dims(), mixing ? &*mixing : nullptr, node.name}, space.whole);
}

}  // namespace strata::host
