#include "compiler/graph/parameter_descriptions.hpp"

namespace strata::host {

ParameterDescriptions::ParameterDescriptions(const Graph& graph) : graph_(graph) {
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::forward) continue;
    for (const Value& operand : node.operands) first_block_.try_emplace(operand, node.block);
  }
}

ParameterDescription ParameterDescriptions::operator()(const Parameter& parameter) const {
  const TensorType& type = graph_.type(parameter.value);
  const auto block = first_block_.find(parameter.value);
  return {.name = parameter.name,
          .dims = type.dims,
          .elements = element_count(graph_.shape(parameter.value)),
          .dtype = type.dtype,
          .block = block == first_block_.end() ? 0 : block->second,
          .role = parameter.role,
          .decay = parameter.decay};
}

}  // namespace strata::host
