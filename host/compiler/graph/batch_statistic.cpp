#include "compiler/graph/batch_statistic.hpp"

#include <algorithm>
#include <set>

namespace strata::host {
namespace {

bool has_batch(const TensorType& type) { return contains(type.dims, "batch"); }

}  // namespace

const Node* find_batch_statistic(const Graph& graph) {
  std::set<Value> read;
  for (const Node& node : graph.nodes()) {
    if (node.phase == Phase::forward) read.insert(node.operands.begin(), node.operands.end());
  }
  for (const Node& node : graph.nodes()) {
    const bool reads_batch =
        std::ranges::any_of(node.operands, [&](const Value& operand) { return has_batch(graph.type(operand)); });
    if (node.phase != Phase::forward || !reads_batch) continue;
    for (int result = 0; result < static_cast<int>(node.results.size()); ++result) {
      if (!has_batch(node.results[static_cast<std::size_t>(result)]) && read.contains({node.id, result})) return &node;
    }
  }
  return nullptr;
}

}  // namespace strata::host
