#include "compiler/graph/loss_elements.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace strata::host {
namespace {

/// Elements of the largest integer operand of `node` or, if it has none, of a node before it. 0 if there is none.
std::int64_t integers_before(const Graph& graph, const Node& node) {
  std::vector<const Node*> open{&node};
  std::set<int> seen;
  while (!open.empty()) {
    const Node& next = *open.back();
    open.pop_back();
    std::int64_t elements = 0;
    for (const Value& operand : next.operands) {
      if (graph.type(operand).dtype == DType::i32) elements = std::max(elements, element_count(graph.shape(operand)));
    }
    if (elements > 0) return elements;
    for (const Value& operand : next.operands) {
      if (seen.insert(operand.node).second) open.push_back(&graph.node(operand.node));
    }
  }
  return 0;
}

}  // namespace

std::int64_t loss_elements(const Graph& graph) {
  std::int64_t elements = 0;
  for (const Sink& sink : graph.sinks) {
    if (sink.kind == Sink::Kind::count) elements += integers_before(graph, graph.node(sink.value.node));
  }
  return elements > 0 ? elements : graph.sizes.at("batch");
}

}  // namespace strata::host
