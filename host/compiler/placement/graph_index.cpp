#include "compiler/placement/graph_index.hpp"

namespace strata::host {

GraphIndex::GraphIndex(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    position.emplace(node.id, position.size());
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      uses[node.operands[i]].push_back({&node, static_cast<int>(i)});
    }
  }
  for (const Sink& sink : graph.sinks) {
    sinks[sink.value].push_back(&sink);
    if (sink.kind == Sink::Kind::parameter_gradient) with_gradient.insert(sink.name);
  }
}

}  // namespace strata::host
