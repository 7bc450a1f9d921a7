#include "compiler/placement/fragments.hpp"

#include <utility>

#include "compiler/graph/parameter_descriptions.hpp"

namespace strata::host {

std::vector<Fragments> parameter_fragments(const Graph& graph, const OpRegistry& registry,
                                           const std::vector<NamedStrategy>& strategies) {
  const ParameterDescriptions describe(graph, registry);
  std::vector<Fragments> all;
  for (const Parameter& parameter : graph.parameters) {
    const ParameterDescription description = describe(parameter);
    Fragments fragments;
    for (const NamedStrategy& each : strategies) {
      fragments.push_back(
          each.ask<ReplicaHooks>("fragment", [&](const ReplicaHooks& by) { return by.fragment(description); }));
    }
    all.push_back(std::move(fragments));
  }
  return all;
}

std::vector<bool> own_buckets(const Graph& graph, const OpRegistry& registry,
                              const std::vector<NamedStrategy>& strategies) {
  const ParameterDescriptions describe(graph, registry);
  std::vector<bool> all;
  for (const Parameter& parameter : graph.parameters) {
    const ParameterDescription description = describe(parameter);
    bool wanted = false;
    for (const NamedStrategy& each : strategies) {
      if (parameter.role != ParameterRole::trained) break;
      wanted |= each.ask<GradientHooks>("wants_own_bucket",
                                        [&](const GradientHooks& by) { return by.wants_own_bucket(description); });
    }
    all.push_back(wanted);
  }
  return all;
}

}  // namespace strata::host
