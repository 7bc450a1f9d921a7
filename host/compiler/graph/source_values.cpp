#include "compiler/graph/source_values.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/graph/build_graph.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The nodes that are reached from the inputs of these names, themselves included.
std::set<int> reached_from(const Graph& graph, const std::set<std::string>& inputs) {
  std::set<int> reached;
  for (const Node& node : graph.nodes()) {
    const bool begins = node.is_input() && inputs.contains(node.name);
    const bool follows = std::any_of(node.operands.begin(), node.operands.end(),
                                     [&](const Value& operand) { return reached.contains(operand.node); });
    if (begins || follows) reached.insert(node.id);
  }
  return reached;
}

/// Inputs of the source are no source values: they are small, and every step may read them.
std::set<Value> source_values(const Graph& graph, const Generation& generation) {
  const std::set<int> of_source = reached_from(graph, {generation.source->input, generation.source->mask});
  const std::set<int> of_text =
      reached_from(graph, {generation.input, generation.positions, generation.documents, generation.mask});
  std::set<Value> values;
  for (const Node& node : graph.nodes()) {
    if (!of_text.contains(node.id)) continue;
    for (const Value& operand : node.operands) {
      const bool is_of_source = of_source.contains(operand.node) && !of_text.contains(operand.node);
      if (is_of_source && !graph.node(operand.node).is_input()) values.insert(operand);
    }
  }
  for (const Value& value : values) {
    if (value.result == 0) continue;
    const Node& node = graph.node(value.node);
    throw ConfigurationError("op " + node.op + " '" + node.name + "' hands result " + std::to_string(value.result) +
                             " of the source to the text; accepted: result 0");
  }
  return values;
}

}  // namespace

void keep_source_values(Graph& graph, const Generation& generation) {
  const std::set<Value> values = source_values(graph, generation);
  graph.sinks.clear();
  for (const Value& value : values) {
    graph.sinks.push_back({Sink::Kind::output, graph.node(value.node).name, value});
  }
  graph.remove_dead_nodes();
  drop_unread_parameters(graph);
}

void take_source_values(Graph& graph, const Generation& generation) {
  for (const Value& value : source_values(graph, generation)) {
    Node& node = graph.node(value.node);
    node.op = "parameter";
    node.operands.clear();
    node.attributes = {};
    node.results.resize(1);
    node.block = -1;
    graph.parameters.push_back(
        {.name = node.name, .value = value, .initialization = {}, .role = ParameterRole::constant});
  }
  graph.remove_dead_nodes();
  drop_unread_parameters(graph);
}

}  // namespace strata::host
