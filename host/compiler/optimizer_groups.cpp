#include "compiler/optimizer_groups.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/graph/parameter_descriptions.hpp"
#include "strata/error.hpp"
#include "strata/program.hpp"

namespace strata::host {
namespace {

bool names(const OptimizerGroup& group, const std::string& parameter) {
  return std::any_of(group.parameters.begin(), group.parameters.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0; });
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
    if (!state.dims) continue;
    if (!has_own_bucket) refuse(state, " with dimensions of its own; accepted: only if wants_own_bucket() is true");
    for (const Dim& dim : *state.dims) {
      if (find_dim(parameter.dims, dim) >= 0) continue;
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

}  // namespace

bool is_reserved_state(const std::string& name) { return name == kMasterState || name == kAverageState; }

NormGroupIndex index_norm_groups(const Graph& graph, const OptimizerSettings& optimizer) {
  NormGroupIndex index;
  if (!optimizer.norm_group) return index;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role != ParameterRole::trained) continue;
    const std::string group = optimizer.norm_group(parameter.name);
    const auto known = std::find(index.names.begin(), index.names.end(), group);
    index.of_parameter[parameter.name] = known - index.names.begin();
    if (known == index.names.end()) index.names.push_back(group);
  }
  return index;
}

int group_of(const OptimizerSettings& optimizer, const std::string& parameter) {
  const auto found = std::find_if(optimizer.groups.begin(), optimizer.groups.end(),
                                  [&](const OptimizerGroup& group) { return names(group, parameter); });
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

}  // namespace strata::host
