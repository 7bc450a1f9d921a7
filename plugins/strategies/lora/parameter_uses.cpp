#include "parameter_uses.hpp"

#include <algorithm>
#include <utility>

namespace lora {

using namespace strata;

namespace {

bool is_linear(const Node& node) { return node.op == "linear"; }
bool is_lookup(const Node& node, int operand) { return node.op == "embedding" && operand == 0; }

}  // namespace

ParameterUses::ParameterUses(const Graph& graph) : graph_(graph) {
  std::map<int, int> parameter_of;  // by node: the parameter, or its cast
  for (const Parameter& parameter : graph.parameters) parameter_of[parameter.value.node] = parameter.value.node;
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const auto found = parameter_of.find(node.operands[i].node);
      if (found == parameter_of.end()) continue;
      if (node.op == "cast") {
        parameter_of[node.id] = found->second;
      } else {
        uses_[found->second].push_back({node.id, static_cast<int>(i)});
      }
    }
  }
}

const std::vector<ParameterUse>& ParameterUses::of(const Parameter& parameter) const {
  static const std::vector<ParameterUse> kNone;
  const auto found = uses_.find(parameter.value.node);
  return found == uses_.end() ? kNone : found->second;
}

bool ParameterUses::is_matrix_of_products(const Parameter& parameter) const {
  std::string reason;
  const std::vector<ParameterUse>& uses = of(parameter);
  return sides(parameter, reason) && std::all_of(uses.begin(), uses.end(), [&](const ParameterUse& use) {
           return is_linear(graph_.node(use.node));
         });
}

std::optional<MatrixSides> ParameterUses::sides(const Parameter& parameter, std::string& reason) const {
  std::optional<MatrixSides> common;
  const Dims& dims = graph_.type(parameter.value).dims;
  for (const ParameterUse& use : of(parameter)) {
    std::optional<MatrixSides> each = sides(dims, use, reason);
    if (!each) return std::nullopt;
    if (common && *common != *each) {
      reason = "its readers sum over different dimensions";
      return std::nullopt;
    }
    common = std::move(each);
  }
  if (!common) reason = "nothing reads it";
  return common;
}

std::optional<MatrixSides> ParameterUses::sides(const Dims& dims, const ParameterUse& use, std::string& reason) const {
  const Node& node = graph_.node(use.node);
  if (is_lookup(node, use.operand)) return MatrixSides{{dims.back()}, {dims.front()}};
  if (!is_linear(node)) {
    reason = "'" + node.name + "' reads it as an operand of " + node.op;
    return std::nullopt;
  }
  const Dims& input = graph_.type(node.operands[static_cast<std::size_t>(1 - use.operand)]).dims;
  MatrixSides sides;
  for (const Dim& dim : dims) {
    const bool is_result = find_dim(node.results.front().dims, dim) >= 0;
    if (is_result && find_dim(input, dim) >= 0) {
      reason = "'" + node.name + "' has a matrix of its own for each '" + dim + "'";
      return std::nullopt;
    }
    (is_result ? sides.outputs : sides.contracted).push_back(dim);
  }
  if (sides.outputs.empty() || sides.contracted.empty()) {
    reason = "'" + node.name + "' reads it as a vector";
    return std::nullopt;
  }
  return sides;
}

}  // namespace lora
