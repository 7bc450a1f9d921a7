#include "compiler/placement/shared_parameters.hpp"

#include <set>
#include <string>
#include <vector>

#include "strata/error.hpp"

namespace strata::host {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw ConfigurationError(what); }

/// "8 x 16"
std::string describe(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return join(sizes, " x ");
}

void require_values(const Graph& evaluation, const Graph& training) {
  for (const Parameter& parameter : evaluation.parameters) {
    const Parameter* trained = training.find_parameter(parameter.name);
    const std::string name = parameter.role == ParameterRole::constant ? "constant" : "parameter";
    if (trained == nullptr) {
      refuse("its evaluation graph has " + name + " '" + parameter.name +
             "', which its training graph lacks; ask for it in both");
    }
    const TensorType& found = evaluation.type(parameter.value);
    const TensorType& wanted = training.type(trained->value);
    if (found != wanted || evaluation.shape(parameter.value) != training.shape(trained->value)) {
      refuse("its evaluation graph has " + name + " '" + parameter.name + "' as " + to_string(found) + " of " +
             describe(evaluation.shape(parameter.value)) + ", its training graph as " + to_string(wanted) + " of " +
             describe(training.shape(trained->value)));
    }
  }
}

void require_blocks(const Graph& evaluation, const Graph& training) {
  if (evaluation.block_count() <= training.block_count()) return;
  refuse("its evaluation graph has " + std::to_string(evaluation.block_count()) + " blocks, its training graph " +
         std::to_string(training.block_count()) + "; accepted: at most as many");
}

/// A parameter lies on the stages that read it in the training step.
void require_homes(const Graph& evaluation, const Graph& training, const Stages& stages) {
  const auto readers = stages.readers(training);
  for (const Node& node : evaluation.nodes()) {
    for (const Value& operand : node.operands) {
      const Node& leaf = evaluation.node(operand.node);
      if (!leaf.is_parameter()) continue;
      const auto found = readers.find(training.find_parameter(leaf.name)->value);
      const std::set<int> homes = found == readers.end() ? std::set<int>{0} : found->second;
      if (homes.contains(stages.stage(node))) continue;
      refuse("its evaluation graph reads parameter '" + leaf.name + "' in block " + std::to_string(node.block) +
             ", on stage " + std::to_string(stages.stage(node)) + ", which its training graph does not");
    }
  }
}

}  // namespace

void require_shared_parameters(const Graph& evaluation, const Graph& training, const Stages& stages) {
  require_values(evaluation, training);
  require_blocks(evaluation, training);
  require_homes(evaluation, training, stages);
}

}  // namespace strata::host
