#include "reports/model_flops.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace strata::host {
namespace {

/// The operands of a node that are factors of matrix products: those that mixed precision shortens.
std::vector<Value> factors(const Graph& graph, const Node& node, const OpRegistry& registry) {
  std::vector<Value> found;
  const OpDefinition& op = registry.get(node.op);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!is_floating_point(graph.type(node.operands[i]).dtype)) continue;
    if (op.operand_precision(static_cast<int>(i)) == OperandPrecision::low) found.push_back(node.operands[i]);
  }
  return found;
}

/// Calls visit(factors, FLOPs of the forward pass) for every product of the forward pass.
template <class Visit>
void for_each_product(const Graph& graph, const OpRegistry& registry, const Visit& visit) {
  for (const Node& node : graph.nodes()) {
    if (node.is_leaf() || node.phase != Phase::forward) continue;
    const std::vector<Value> of_node = factors(graph, node, registry);
    if (!of_node.empty()) visit(of_node, registry.get(node.op).cost(graph, node).flops);
  }
}

}  // namespace

double model_flops(const Graph& graph, const OpRegistry& registry) {
  const std::set<int> trained = trained_nodes(graph);
  double flops = 0;
  for_each_product(graph, registry, [&](const std::vector<Value>& of_node, double forward) {
    const auto gradients = std::count_if(of_node.begin(), of_node.end(),
                                         [&](const Value& factor) { return trained.contains(factor.node); });
    flops += forward * static_cast<double>(1 + std::min<std::ptrdiff_t>(gradients, 2));
  });
  return flops;
}

DType product_type(const Graph& graph, const OpRegistry& registry) {
  std::map<DType, double> flops;
  for_each_product(graph, registry, [&](const std::vector<Value>& of_node, double forward) {
    flops[graph.type(of_node.front()).dtype] += forward;
  });
  const auto most = std::max_element(flops.begin(), flops.end(),
                                     [](const auto& one, const auto& other) { return one.second < other.second; });
  return most == flops.end() ? DType::f32 : most->first;
}

}  // namespace strata::host
