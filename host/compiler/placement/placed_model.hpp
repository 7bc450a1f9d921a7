#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile_request.hpp"
#include "compiler/placement/metrics.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/placement/storage.hpp"
#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"

namespace strata::host {

/// What the programs of all stages look up in the graph. It is made once, because each of them has a part of the graph
/// only.
struct GraphIndex {
  /// A node that reads a value, and which operand the value is.
  struct Use {
    const Node* node = nullptr;
    int operand = 0;
  };

  GraphIndex() = default;
  /// Refers to the nodes and sinks of `graph`.
  explicit GraphIndex(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      position.emplace(node.id, position.size());
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        uses[node.operands[i]].push_back({&node, static_cast<int>(i)});
      }
    }
    for (const Sink& sink : graph.sinks) {
      sinks[sink.value].push_back(&sink);
      if (sink.kind == Sink::Kind::parameter_gradient) with_gradient.insert(sink.name);
    }
  }

  /// The readers of a value, in the order of the graph.
  [[nodiscard]] const std::vector<Use>& uses_of(Value value) const { return entry(uses, value); }
  [[nodiscard]] const std::vector<const Sink*>& sinks_of(Value value) const { return entry(sinks, value); }

  /// Of values that have some.
  std::map<Value, std::vector<Use>> uses;
  std::map<Value, std::vector<const Sink*>> sinks;
  /// Position of a node in the graph, by its id.
  std::map<int, std::size_t> position;
  /// Parameters with a gradient.
  std::set<std::string> with_gradient;

 private:
  template <class Entry>
  static const Entry& entry(const std::map<Value, Entry>& entries, Value value) {
    static const Entry kNone;
    const auto found = entries.find(value);
    return found == entries.end() ? kNone : found->second;
  }
};

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
  /// The stages that hold a parameter: those that read it, or the first if none does.
  [[nodiscard]] std::set<int> homes(const Parameter& parameter) const {
    std::set<int> homes;
    for (const GraphIndex::Use& use : index.uses_of(parameter.value)) homes.insert(stages.stage(*use.node));
    return homes.empty() ? std::set<int>{0} : homes;
  }
  /// The axes along which ranks of this program have values of their own: without training, none.
  [[nodiscard]] AxisSet apart() const { return is_training() ? stack.apart() : AxisSet{}; }
};

}  // namespace strata::host
