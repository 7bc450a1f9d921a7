#pragma once

#include <vector>

#include "compiler/compile_request.hpp"
#include "compiler/placement/graph_index.hpp"
#include "compiler/placement/metrics.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/placement/storage.hpp"
#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// A model whose blocks have stages, whose dimensions have layouts and whose parameters have storage. All programs of
/// one compilation are made from it.
struct PlacedModel {
  const CompileRequest& request;
  const Stack& stack;
  BatchSplit batch = {};
  Graph graph = {};
  /// Of `graph`, whose nodes stay where they are if the model is moved.
  GraphIndex index = {};
  Stages stages = {};
  LayoutRules rules = {};
  /// By position in Graph::parameters. Empty for an evaluation pass, which has the storage of its training step.
  std::vector<PlacedParameter> parameters = {};
  RankClasses ranks = {};
  /// How each parameter is updated, and the groups whose gradient norms are reported. Empty without training.
  AssignedGroups groups = {};
  NormGroupIndex norm_groups = {};
  /// Of `graph`.
  std::vector<PlacedMetric> metrics = {};

  [[nodiscard]] const OpRegistry& registry() const { return *request.registry; }
  [[nodiscard]] bool is_training() const { return request.is_training(); }
  [[nodiscard]] bool keeps_average() const {
    return is_training() && request.optimizer.average_decay > 0 && !request.optimizer.is_update_outside;
  }
  /// The layout of a value between the ops that make and read it.
  [[nodiscard]] Layout at_rest(Value value) const {
    return rules.canonical(graph.type(value).dims, graph.node(value.node).name);
  }
  /// The axes along which ranks of this program have values of their own: without training, none.
  [[nodiscard]] AxisSet apart() const { return is_training() ? stack.apart() : AxisSet{}; }
};

}  // namespace strata::host
