#include "verify/op_graph.hpp"

#include <algorithm>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

Value add_leaf(Graph& graph, const std::string& op, const std::string& name, const TensorType& type) {
  Node leaf;
  leaf.op = op;
  leaf.name = name;
  leaf.results = {type};
  const Value value{graph.append(std::move(leaf)), 0};
  if (op == "parameter") {
    Parameter parameter;
    parameter.name = name;
    parameter.value = value;
    graph.parameters.push_back(std::move(parameter));
  }
  return value;
}

bool is_read(const Graph& graph, Value value) {
  const auto reads = [&](const Node& node) {
    return std::find(node.operands.begin(), node.operands.end(), value) != node.operands.end();
  };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), reads) ||
         std::any_of(graph.sinks.begin(), graph.sinks.end(), [&](const Sink& sink) { return sink.value == value; });
}

/// Passes leaves to the gradient rule as gradients of the results, and makes the operands' gradients outputs.
class RuleContext final : public GradientContext {
 public:
  RuleContext(OpGraph& alone, const OpRegistry& registry, Node node, std::vector<std::optional<Value>> cotangents)
      : alone_(alone), registry_(registry), node_(std::move(node)), cotangents_(std::move(cotangents)) {}

  [[nodiscard]] const Graph& graph() const override { return alone_.graph; }
  [[nodiscard]] const Node& node() const override { return node_; }
  std::optional<Value> cotangent(int index) override { return cotangents_.at(static_cast<std::size_t>(index)); }
  [[nodiscard]] bool needs_gradient(int operand) const override { return alone_.differentiated.contains(operand); }

  std::vector<Value> emit(int index, const std::string& op, std::vector<Value> operands,
                          Attributes attributes) override {
    Node node;
    node.op = op;
    node.name = node_.name;
    node.operands = std::move(operands);
    node.attributes = std::move(attributes);
    node.block = node_.block;
    node.phase = alone_.graph.node(operand(index).node).is_parameter() ? Phase::weight : Phase::backward;
    node.results = registry_.get(op).infer(alone_.graph, node);
    const auto count = static_cast<int>(node.results.size());
    const int id = alone_.graph.append(std::move(node));
    std::vector<Value> values;
    for (int i = 0; i < count; ++i) values.push_back({id, i});
    return values;
  }

  void contribute(int index, Value gradient) override {
    if (!needs_gradient(index)) return;
    require_dims_of_operand(index, gradient);
    alone_.graph.sinks.push_back({Sink::Kind::output, alone_.gradient(index), gradient});
  }

 private:
  OpGraph& alone_;
  const OpRegistry& registry_;
  Node node_;
  std::vector<std::optional<Value>> cotangents_;
};

}  // namespace

OpGraph isolate(const Graph& graph, const Node& node, const std::set<int>& trained) {
  OpGraph alone;
  alone.graph.sizes = graph.sizes;
  Node copy = node;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value operand = node.operands[i];
    const TensorType& type = graph.type(operand);
    const bool is_parameter = graph.node(operand.node).is_parameter();
    alone.operands.push_back("operand " + std::to_string(i) + " of " + node.name);
    copy.operands[i] = add_leaf(alone.graph, is_parameter ? "parameter" : "input", alone.operands.back(), type);
    if (trained.contains(operand.node) && is_floating_point(type.dtype))
      alone.differentiated.insert(static_cast<int>(i));
  }
  for (const Sink& sink : graph.sinks) {
    if (sink.kind == Sink::Kind::loss && sink.value.node == node.id) alone.loss = sink.value.result;
  }
  const auto results = static_cast<int>(node.results.size());
  std::vector<std::pair<std::string, TensorType>> leaves;
  for (int i = 0; i < results; ++i) {
    const TensorType& type = node.results[static_cast<std::size_t>(i)];
    const bool has_gradient = alone.loss < 0 && is_floating_point(type.dtype) && is_read(graph, {node.id, i});
    alone.cotangents.push_back(has_gradient ? "cotangent " + std::to_string(i) + " of " + node.name : "");
    alone.results.push_back("result " + std::to_string(i) + " of " + node.name);
    if (has_gradient) add_leaf(alone.graph, "input", alone.cotangents.back(), type);
  }
  const int id = alone.graph.append(std::move(copy));
  for (int i = 0; i < results; ++i) {
    alone.graph.sinks.push_back({Sink::Kind::output, alone.results[static_cast<std::size_t>(i)], {id, i}});
  }
  return alone;
}

void add_gradients(OpGraph& alone, const OpRegistry& registry) {
  const Node node = alone.graph.node(alone.graph.sinks.front().value.node);
  const GradientRule rule = registry.get(node.op).gradient();
  if (!rule) throw VerificationError("op '" + node.op + "' has no gradient");
  std::vector<std::optional<Value>> cotangents;
  for (const std::string& name : alone.cotangents) {
    std::optional<Value> leaf;
    for (const Node& each : alone.graph.nodes()) {
      if (!name.empty() && each.name == name) leaf = Value{each.id, 0};
    }
    cotangents.push_back(leaf);
  }
  RuleContext context(alone, registry, node, std::move(cotangents));
  rule(context);
  verify(alone.graph, registry, "the gradient rule of op '" + node.op + "'");
}

}  // namespace strata::host
