#include "train/published/coded_weights.hpp"

#include "strata/derived_initializer.hpp"

namespace strata::host {

std::map<std::string, CodedWeight> coded_weights(const Graph& graph) {
  std::map<std::string, CodedWeight> weights;
  for (const Node& node : graph.nodes()) {
    if (node.op != kDequantizeWeight) continue;
    const std::string& codes = graph.node(node.operands[0].node).name;
    const Parameter* parameter = graph.find_parameter(codes);
    if (parameter == nullptr) continue;
    const DerivedInitializer* derived = derived_initializer(parameter->initialization);
    if (derived == nullptr) continue;
    const Value decoded{node.id, 0};
    const int along = find_dim(graph.type(decoded).dims, node.attributes.word("along"));
    const BlockedWeight shape(WeightBlocks::from(node.attributes), graph.shape(decoded),
                              static_cast<std::size_t>(along));
    const std::string& scales = graph.node(node.operands[1].node).name;
    weights.try_emplace(derived->source().name, CodedWeight{codes, scales, decoded, shape});
  }
  return weights;
}

}  // namespace strata::host
