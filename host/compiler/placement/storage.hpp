#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// The numbers that strategies give one parameter (ReplicaHooks::fragment), by strategy.
using Fragments = std::vector<int>;

/// What the strategies decide on one parameter.
struct PlacedParameter {
  ParameterStorage storage;
  Fragments fragments;
  /// True if a strategy wants it alone in its bucket (GradientHooks::wants_own_bucket). Only trained parameters are
  /// asked for.
  bool has_own_bucket = false;
};

/// The parameters of a graph, by position in Graph::parameters.
struct ResolvedStorage {
  std::vector<PlacedParameter> parameters;
  /// Names of the strategies that chose other than default storage.
  std::set<std::string> decided_by;
};

/// Asks the strategies for the storage of every parameter. Puts storage axes in mesh order. Drops axes of one rank and
/// axes that already shard the parameter's compute layout. \throws PluginError if two strategies answer for a
/// parameter, or if an answer is impossible.
[[nodiscard]] ResolvedStorage resolve_storage(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules,
                                              const Stack& stack);

}  // namespace strata::host
