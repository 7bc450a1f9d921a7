#include "strata/op.hpp"

#include <algorithm>

#include "strata/error.hpp"
#include "strata/options.hpp"

namespace strata {

Dims IterationSpace::dims() const {
  Dims all;
  for (const auto* group : {&operands, &results}) {
    for (const Dims& dims : *group) {
      for (const Dim& dim : dims) {
        if (find_dim(all, dim) < 0) all.push_back(dim);
      }
    }
  }
  return all;
}

GradientContext::~GradientContext() = default;
DecomposeContext::~DecomposeContext() = default;
OpDefinition::~OpDefinition() = default;

IterationSpace OpDefinition::iteration(const Graph& graph, const Node& node) const {
  IterationSpace space;
  for (const Value& operand : node.operands) space.operands.push_back(graph.type(operand).dims);
  for (const TensorType& result : node.results) space.results.push_back(result.dims);
  return space;
}

void OpDefinition::gradient(GradientContext& /*context*/) const {
  throw VerificationError("op '" + name() + "' has no gradient");
}

bool OpDefinition::decompose(DecomposeContext& /*context*/) const { return false; }

Cost OpDefinition::cost(const Graph& graph, const Node& node) const {
  Cost cost;
  for (const Value& operand : node.operands) {
    cost.bytes += static_cast<double>(element_count(graph.shape(operand))) *
                  static_cast<double>(size_of(graph.type(operand).dtype));
  }
  for (const TensorType& result : node.results) {
    const auto elements = static_cast<double>(element_count(shape_of(result.dims, graph.sizes)));
    cost.bytes += elements * static_cast<double>(size_of(result.dtype));
    cost.flops = std::max(cost.flops, elements);
  }
  return cost;
}

OperandPrecision OpDefinition::operand_precision(int /*operand*/) const { return OperandPrecision::unchanged; }

std::vector<int> OpDefinition::in_place_operands(int /*result*/) const { return {}; }

OpRegistry::OpRegistry() = default;
OpRegistry::~OpRegistry() = default;
OpRegistry::OpRegistry(OpRegistry&&) noexcept = default;
OpRegistry& OpRegistry::operator=(OpRegistry&&) noexcept = default;

void OpRegistry::add(std::unique_ptr<OpDefinition> definition) {
  const std::string name = definition->name();
  if (!definitions_.try_emplace(name, std::move(definition)).second) {
    throw ConfigurationError("op '" + name + "' is registered twice");
  }
}

const OpDefinition& OpRegistry::get(const std::string& name) const {
  const auto found = definitions_.find(name);
  if (found != definitions_.end()) return *found->second;
  const std::string near = nearest(name, names());
  throw VerificationError("there is no op '" + name + "'" + (near.empty() ? "" : "; nearest is '" + near + "'"));
}

bool OpRegistry::has(const std::string& name) const { return definitions_.contains(name); }

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> all;
  for (const auto& [name, definition] : definitions_) all.push_back(name);
  return all;
}

}  // namespace strata
