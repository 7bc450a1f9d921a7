#include "compiler/graph/continue_sequence.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/build_graph.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

[[noreturn]] void refuse_continuation(const std::string& what) { throw ConfigurationError(what); }

/// Replaces one node by the nodes of its op's rule.
class Replacement final : public ContinuationContext {
 public:
  Replacement(Graph& graph, const OpRegistry& registry, Node node, Dim sequence, Value positions)
      : graph_(graph),
        registry_(registry),
        node_(std::move(node)),
        sequence_(std::move(sequence)),
        positions_(positions) {}

  [[nodiscard]] const Graph& graph() const override { return graph_; }
  [[nodiscard]] const Node& node() const override { return node_; }
  [[nodiscard]] Dim sequence() const override { return sequence_; }
  [[nodiscard]] Value positions() const override { return positions_; }

  std::vector<Value> emit(const std::string& op, std::vector<Value> operands, Attributes attributes) override {
    std::vector<Value> results = append_inferred(graph_, registry_,
                                                 {.op = op,
                                                  .name = emitted.empty() ? node_.name : node_.name + "." + op,
                                                  .operands = std::move(operands),
                                                  .attributes = std::move(attributes),
                                                  .block = node_.block});
    emitted.push_back(graph_.nodes().back().id);
    return results;
  }

  void replace(int index, Value value) override { replacements.emplace_back(Value{node_.id, index}, value); }

  std::vector<int> emitted;
  std::vector<std::pair<Value, Value>> replacements;

 private:
  Graph& graph_;
  const OpRegistry& registry_;
  Node node_;
  Dim sequence_;
  Value positions_;
};

class Continuer {
 public:
  Continuer(Graph& graph, const OpRegistry& registry, const SequenceContinuation& continuation)
      : graph_(graph), registry_(registry), continuation_(continuation), sequence_(continuation.generation.sequence) {}

  void run() {
    require_no_parameter_along_sequence();
    graph_.sizes[sequence_] = continuation_.positions;
    graph_.sizes[kCacheDim] = continuation_.capacity;
    positions_ = add_positions();
    std::vector<int> nodes;
    for (const Node& node : graph_.nodes()) nodes.push_back(node.id);
    nodes.pop_back();  // the input of positions, which is the first now
    for (const int id : nodes) place(id);
    std::vector<Node> placed;
    for (const int id : order_) placed.push_back(graph_.node(id));
    graph_.replace_nodes(std::move(placed));
    if (continuation_.fills_only) keep_caches();
    graph_.remove_dead_nodes();
    // Those behind the last cache.
    if (continuation_.fills_only) drop_unread_parameters(graph_);
  }

 private:
  void require_no_parameter_along_sequence() const {
    for (const Parameter& parameter : graph_.parameters) {
      if (!contains(graph_.type(parameter.value).dims, sequence_)) continue;
      refuse_continuation("parameter '" + parameter.name + "' lies along '" + sequence_ +
                          "', so it has no row for a single position; a dimension of its own, read by positions, has");
    }
  }

  Value add_positions() {
    const int id =
        graph_.append({.op = "input", .name = kCachePositions, .results = {{{"batch", sequence_}, DType::i32}}});
    order_.push_back(id);
    return {id, 0};
  }

  void place(int id) {
    if (graph_.node(id).is_input()) type_input(graph_.node(id));
    if (graph_.node(id).is_leaf()) {
      order_.push_back(id);
      return;
    }
    // A copy, because the rule appends nodes.
    const Node node(graph_.node(id));
    // A node that is replaced need not fit the new positions, as the bias of attention does not.
    if (registry_.get(node.op).continuation() && mixes_positions(node)) return continue_node(node);
    infer(graph_.node(id));
    if (mixes_positions(graph_.node(id))) {
      refuse_continuation("op " + node.op + " '" + node.name +
                          "' mixes positions and does not say how it is continued");
    }
    order_.push_back(id);
  }

  void type_input(Node& input) const {
    const Generation& known = continuation_.generation;
    TensorType& type = input.results.front();
    if (!contains(type.dims, sequence_)) return;
    if (input.name == known.positions && !known.positions.empty()) type.dims = {"batch", sequence_};
    for (const std::string& name : {known.input, known.positions, known.documents, known.mask}) {
      if (input.name == name) return;
    }
    refuse_continuation("the model reads the input '" + input.name +
                        "' along the sequence; accepted: the inputs that its generation names");
  }

  /// Types may have changed, because positions differ between texts.
  void infer(Node& node) const {
    try {
      node.results = registry_.get(node.op).infer(graph_, node);
    } catch (const VerificationError& error) {
      refuse_continuation("with positions of each text: " + std::string(error.what()));
    }
  }

  /// True unless each result at a position depends on the operands at this position only.
  [[nodiscard]] bool mixes_positions(const Node& node) const {
    const IterationSpace space = registry_.get(node.op).iteration(graph_, node);
    bool reads_sequence = false;
    const auto is_renamed = [&](const Dims& dims, const Dims& iterated) {
      for (std::size_t i = 0; i < dims.size(); ++i) {
        reads_sequence = reads_sequence || dims[i] == sequence_;
        if ((dims[i] == sequence_) != (iterated[i] == sequence_)) return true;
      }
      return false;
    };
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (is_renamed(graph_.type(node.operands[i]).dims, space.operands[i])) return true;
    }
    const bool operands_have_it = reads_sequence;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      if (is_renamed(node.results[i].dims, space.results[i])) return true;
      if (operands_have_it && !contains(node.results[i].dims, sequence_)) return true;
    }
    return reads_sequence && space.whole.contains(sequence_);
  }

  void continue_node(const Node& node) {
    Replacement replacement(graph_, registry_, node, sequence_, positions_);
    registry_.get(node.op).continuation()(replacement);
    order_.insert(order_.end(), replacement.emitted.begin(), replacement.emitted.end());
    for (const auto& [from, to] : replacement.replacements) graph_.replace_uses(from, to);
  }

  /// Makes the caches the only outputs of a graph that fills them.
  void keep_caches() {
    graph_.sinks.clear();
    for (const Node& node : graph_.nodes()) {
      if (node.is_leaf()) continue;
      const OpDefinition& op = registry_.get(node.op);
      for (int result = 0; result < static_cast<int>(node.results.size()); ++result) {
        if (!op.keeps_result(result)) continue;
        graph_.sinks.push_back({Sink::Kind::output, node.name + "." + std::to_string(result), Value{node.id, result}});
      }
    }
    if (graph_.sinks.empty()) refuse_continuation("no op of the model keeps anything of earlier positions");
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const SequenceContinuation& continuation_;
  Dim sequence_;
  Value positions_;
  /// Ids of the nodes of the new graph.
  std::vector<int> order_;
};

/// The nodes that are reached from the inputs of these names, themselves included.
std::set<int> reached_from(const Graph& graph, const std::set<std::string>& inputs) {
  std::set<int> reached;
  for (const Node& node : graph.nodes()) {
    const bool begins = node.is_input() && inputs.contains(node.name);
    const bool follows =
        std::ranges::any_of(node.operands, [&](const Value& operand) { return reached.contains(operand.node); });
    if (begins || follows) reached.insert(node.id);
  }
  return reached;
}

/// The values that depend on the source of a text and not on the text, and that ops of the text read, such as the keys
/// and values of an encoder's output. Generation computes them once per source. Inputs of the source are none of them:
/// they are small, and every step may read them.
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

/// Makes the source values the outputs of the graph, by the names of their nodes, and removes all else.
void keep_source_values(Graph& graph, const Generation& generation) {
  const std::set<Value> values = source_values(graph, generation);
  graph.sinks.clear();
  for (const Value& value : values) {
    graph.sinks.push_back({Sink::Kind::output, graph.node(value.node).name, value});
  }
  graph.remove_dead_nodes();
  drop_unread_parameters(graph);
}

/// Turns the source values into constants of the graph, with the names of their nodes. Their initial values are 0.
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

}  // namespace

void continue_sequence(Graph& graph, const OpRegistry& registry, const SequenceContinuation& continuation) {
  if (continuation.reads_source) return keep_source_values(graph, continuation.generation);
  if (continuation.generation.source) take_source_values(graph, continuation.generation);
  Continuer(graph, registry, continuation).run();
}

}  // namespace strata::host
