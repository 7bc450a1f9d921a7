#include "compiler/optimizer_groups.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "strata/error.hpp"
#include "strata/program.hpp"

namespace strata::host {
namespace {

bool names(const OptimizerGroup& group, const std::string& parameter) {
  return std::ranges::any_of(group.parameters, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0;
  });
}

std::vector<OptimizerState> states_of(const OptimizerGroup& group, const ParameterDescription& parameter,
                                      bool has_own_bucket) {
  std::vector<OptimizerState> states =
      call_plugin(group.origin, "states", [&] { return group.optimizer->states(parameter); });
  const auto refuse = [&](const OptimizerState& state, const std::string& accepted) {
    throw PluginError(group.origin, "", "", "names a state '" + state.name + "'" + accepted);
  };
  std::set<std::string> known;
  for (const OptimizerState& state : states) {
    const bool is_no_name = state.name.empty() || state.name.find('/') != std::string::npos;
    if (is_no_name || is_reserved_state(state.name) || !known.insert(state.name).second) {
      refuse(state, "; accepted: different names without '/', other than '" + std::string(kMasterState) + "' and '" +
                        kAverageState + "'");
    }
    if (!state.dims && !state.is_of_whole) continue;
    if (!has_own_bucket) {
      const std::string what = state.is_of_whole ? " of a whole parameter" : " with dimensions of its own";
      refuse(state, what + "; accepted: only if wants_own_bucket() is true");
    }
    if (!state.dims) continue;
    for (const Dim& dim : *state.dims) {
      if (contains(parameter.dims, dim)) continue;
      refuse(state,
             " of the dimension '" + dim + "'; parameter '" + parameter.name + "' has [" + join(parameter.dims) + "]");
    }
  }
  return states;
}

void require_accepted(const OptimizerGroup& group, const ParameterDescription& parameter) {
  const auto refusal = call_plugin(group.origin, "refusal", [&] { return group.optimizer->refusal(parameter); });
  if (!refusal) return;
  throw PluginError(group.origin, "", "",
                    "cannot train parameter '" + parameter.name + "': " + *refusal +
                        ". An [[optimizer.group]] can give it another optimizer");
}

/// The dims of operand `index` over which the product `node` sums.
Dims contracted_dims(const IterationSpace& space, std::size_t index) {
  Dims contracted;
  for (const Dim& dim : space.operands.at(index)) {
    if (!contains(space.results.front(), dim)) contracted.push_back(dim);
  }
  return contracted;
}

}  // namespace

bool is_reserved_state(const std::string& name) { return name == kMasterState || name == kAverageState; }

NormGroupIndex index_norm_groups(const Graph& graph, const OptimizerSettings& optimizer) {
  NormGroupIndex index;
  if (!optimizer.norm_group) return index;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role != ParameterRole::trained) continue;
    const std::string group = optimizer.norm_group(parameter.name);
    const auto known = std::ranges::find(index.names, group);
    index.of_parameter[parameter.name] = known - index.names.begin();
    if (known == index.names.end()) index.names.push_back(group);
  }
  return index;
}

int group_of(const OptimizerSettings& optimizer, const std::string& parameter) {
  const auto found =
      std::ranges::find_if(optimizer.groups, [&](const OptimizerGroup& group) { return names(group, parameter); });
  return static_cast<int>(found - optimizer.groups.begin());
}

void freeze_groups(Graph& graph, const OptimizerSettings& optimizer) {
  if (optimizer.groups.empty()) return;
  for (Parameter& parameter : graph.parameters) {
    if (parameter.role != ParameterRole::trained) continue;
    const auto group = static_cast<std::size_t>(group_of(optimizer, parameter.name));
    if (optimizer.groups.at(group).frozen) parameter.role = ParameterRole::frozen;
  }
}

const AssignedUpdate& AssignedGroups::of(const std::string& parameter) const {
  const auto found = index.find(parameter);
  if (found == index.end()) throw VerificationError("parameter '" + parameter + "' has no optimizer");
  return updates.at(found->second);
}

AssignedGroups assign_groups(const Graph& graph, const OpRegistry& registry, const OptimizerSettings& optimizer) {
  AssignedGroups assigned;
  const ParameterDescriptions describe(graph, registry);
  std::set<int> used;
  for (const Parameter& parameter : graph.parameters) {
    AssignedUpdate update;
    update.parameter = describe(parameter);
    update.group = group_of(optimizer, parameter.name);
    used.insert(update.group);
    const OptimizerGroup& group = optimizer.groups.at(static_cast<std::size_t>(update.group));
    if (parameter.role == ParameterRole::trained) {
      require_accepted(group, update.parameter);
      update.has_own_bucket =
          call_plugin(group.origin, "wants_own_bucket", [&] { return group.optimizer->wants_own_bucket(); });
      update.states = states_of(group, update.parameter, update.has_own_bucket);
    }
    assigned.index.emplace(parameter.name, assigned.updates.size());
    assigned.updates.push_back(std::move(update));
  }
  for (int index = 0; index + 1 < static_cast<int>(optimizer.groups.size()); ++index) {
    if (!used.contains(index)) assigned.unused.push_back(index);
  }
  return assigned;
}

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
