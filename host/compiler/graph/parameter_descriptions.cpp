#include "compiler/graph/parameter_descriptions.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

/// The dims of operand `index` over which the product `node` sums.
Dims contracted_dims(const IterationSpace& space, std::size_t index) {
  Dims contracted;
  for (const Dim& dim : space.operands.at(index)) {
    if (find_dim(space.results.front(), dim) < 0) contracted.push_back(dim);
  }
  return contracted;
}

}  // namespace

ParameterDescriptions::ParameterDescriptions(const Graph& graph, const OpRegistry& registry) : graph_(graph) {
  std::map<Value, Value> copied_from;  // such as the parameter of a cast
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::forward) continue;
    for (const Value& operand : node.operands) first_block_.try_emplace(operand, node.block);
    if (!registry.has(node.op)) continue;
    if (node.operands.size() == 1 && node.results.size() == 1 &&
        graph.type(node.operands.front()).dims == node.results.front().dims) {
      const Value from = node.operands.front();
      const auto known = copied_from.find(from);
      copied_from[{node.id, 0}] = known == copied_from.end() ? from : known->second;
    }
    const OpDefinition& op = registry.get(node.op);
    if (!op.is_product()) continue;
    const IterationSpace space = op.iteration(graph, node);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const auto source = copied_from.find(node.operands[i]);
      const Value value = source == copied_from.end() ? node.operands[i] : source->second;
      contracted_.try_emplace(value, contracted_dims(space, i));
    }
  }
}

ParameterDescription ParameterDescriptions::operator()(const Parameter& parameter) const {
  const TensorType& type = graph_.type(parameter.value);
  const auto block = first_block_.find(parameter.value);
  const auto contracted = contracted_.find(parameter.value);
  return {.name = parameter.name,
          .dims = type.dims,
          .contracted = contracted == contracted_.end() ? Dims{} : contracted->second,
          .elements = element_count(graph_.shape(parameter.value)),
          .dtype = type.dtype,
          .block = block == first_block_.end() ? 0 : block->second,
          .role = parameter.role,
          .decay = parameter.decay,
          .shape = graph_.shape(parameter.value)};
}

}  // namespace strata::host
