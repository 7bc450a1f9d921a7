#include "compiler/placement/kept_between_chunks.hpp"

#include <utility>
#include <vector>

namespace strata::host {

void keep_values_between_chunks(Graph& graph, const Stages& stages) {
  std::vector<Node> nodes = graph.nodes();
  bool changed = false;
  for (Node& node : nodes) {
    for (Value& operand : node.operands) {
      const Node& producer = graph.node(operand.node);
      if (producer.recomputes < 0 || stages.chunk(producer.block) == stages.chunk(node.block)) continue;
      operand.node = producer.recomputes;
      changed = true;
    }
  }
  if (!changed) return;
  graph.replace_nodes(std::move(nodes));
  graph.remove_dead_nodes();
}

}  // namespace strata::host
