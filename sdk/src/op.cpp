#include "strata/op.hpp"

#include <algorithm>

#include "guarded_op.hpp"
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

void GradientContext::require_dims_of_operand(int index, Value gradient) const {
  const TensorType& found = graph().type(gradient);
  const TensorType& wanted = graph().type(operand(index));
  if (found.dims == wanted.dims) return;
  throw VerificationError("the gradient rule of op '" + node().op + "' gives operand " + std::to_string(index) +
                          ", which is " + to_string(wanted) + ", a gradient " + to_string(found));
}

DecomposeContext::~DecomposeContext() = default;
ContinuationContext::~ContinuationContext() = default;
OpDefinition::~OpDefinition() = default;

IterationSpace OpDefinition::iteration(const Graph& graph, const Node& node) const {
  IterationSpace space;
  for (const Value& operand : node.operands) space.operands.push_back(graph.type(operand).dims);
  for (const TensorType& result : node.results) space.results.push_back(result.dims);
  return space;
}

GradientRule OpDefinition::gradient() const { return {}; }
Decomposition OpDefinition::decomposition() const { return {}; }
ContinuationRule OpDefinition::continuation() const { return {}; }
std::optional<PositionMixing> OpDefinition::mixing(const Graph& /*graph*/, const Node& /*node*/) const {
  return std::nullopt;
}
bool OpDefinition::only_chooses(int /*operand*/) const { return false; }
int OpDefinition::version() const { return 1; }
bool OpDefinition::reads_result(int /*result*/) const { return false; }
bool OpDefinition::keeps_result(int /*result*/) const { return false; }
bool OpDefinition::is_product() const { return false; }
bool OpDefinition::is_sum() const { return false; }
std::optional<FlatSignature> OpDefinition::flat_signature(const Attributes& /*attributes*/) const {
  return std::nullopt;
}
std::vector<FusionPattern> OpDefinition::fusions() const { return {}; }

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

void OpRegistry::add(std::unique_ptr<OpDefinition> definition, const std::string& origin) {
  if (definition == nullptr) throw ConfigurationError(origin + " registers an op without a definition");
  const std::string name = definition->name();
  if (const auto known = entries_.find(name); known != entries_.end()) {
    const int version = known->second.definition->version();
    if (version == definition->version()) return;
    throw ConfigurationError("op '" + name + "' is registered by " + known->second.origin + " in version " +
                             std::to_string(version) + " and by " + origin + " in version " +
                             std::to_string(definition->version()) + "; accepted: one version");
  }
  entries_.emplace(name, Entry{guarded(std::move(definition), origin), origin});
}

const OpRegistry::Entry& OpRegistry::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  const std::string near = nearest(name, names());
  throw VerificationError("there is no op '" + name + "'" + (near.empty() ? "" : "; nearest is '" + near + "'"));
}

const OpDefinition& OpRegistry::get(const std::string& name) const { return *entry(name).definition; }

const std::string& OpRegistry::origin(const std::string& name) const { return entry(name).origin; }

bool OpRegistry::has(const std::string& name) const { return entries_.contains(name); }

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) all.push_back(name);
  return all;
}

}  // namespace strata
