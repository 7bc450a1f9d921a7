#include "huggingface/quantized_weights.hpp"

#include "strata/internal/derived_initializer.hpp"

namespace strata::host {

std::map<std::string, QuantizedWeight> quantized_weights(const Graph& graph) {
  std::map<std::string, QuantizedWeight> weights;
  for (const Node& node : graph.nodes()) {
    if (node.op != kDequantizeWeight) continue;
    const std::string& codes = graph.node(node.operands[0].node).name;
    const Parameter* parameter = graph.find_parameter(codes);
    if (parameter == nullptr) continue;
    const DerivedInitializer* derived = derived_initializer(parameter->initialization);
    if (derived == nullptr) continue;
    const Value dequantized{node.id, 0};
    const int along = find_dim(graph.type(dequantized).dims, node.attributes.word("along"));
    const BlockedWeight shape(WeightBlocks::from(node.attributes), graph.shape(dequantized),
                              static_cast<std::size_t>(along));
    const std::string& scales = graph.node(node.operands[1].node).name;
    weights.try_emplace(derived->source().name, QuantizedWeight{codes, scales, dequantized, shape});
  }
  return weights;
}

}  // namespace strata::host
