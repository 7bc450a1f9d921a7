#include "compiler/optimizer_groups.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "compiler/graph/parameter_descriptions.hpp"
#include "strata/program.hpp"

namespace strata::host {
namespace {

bool names(const OptimizerGroup& group, const std::string& parameter) {
  return std::any_of(group.parameters.begin(), group.parameters.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0; });
}

std::vector<std::string> states_of(const OptimizerGroup& group) {
  const std::vector<std::string> states =
      call_plugin(group.origin, "states", [&] { return group.optimizer->states(); });
  std::set<std::string> known{kMasterState};
  for (const std::string& state : states) {
    if (!state.empty() && state.find('/') == std::string::npos && known.insert(state).second) continue;
    throw PluginError(
        group.origin, "", "",
        "names a state '" + state + "'; accepted: different names without '/', other than '" + kMasterState + "'");
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

AssignedGroups assign_groups(const Graph& graph, const OptimizerSettings& optimizer) {
  AssignedGroups assigned;
  const ParameterDescriptions describe(graph);
  std::set<int> used;
  for (const Parameter& parameter : graph.parameters) {
    const int index = group_of(optimizer, parameter.name);
    assigned.of_parameter.push_back(index);
    used.insert(index);
    if (parameter.role == ParameterRole::trained) {
      require_accepted(optimizer.groups.at(static_cast<std::size_t>(index)), describe(parameter));
    }
  }
  for (const OptimizerGroup& group : optimizer.groups) {
    const auto index = static_cast<int>(assigned.states.size());
    assigned.states.push_back(states_of(group));
    if (!used.contains(index) && &group != &optimizer.groups.back()) assigned.unused.push_back(index);
  }
  return assigned;
}

}  // namespace strata::host
