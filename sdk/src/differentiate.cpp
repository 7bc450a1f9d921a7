#include "differentiate.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"
#include "strata/op.hpp"

namespace strata {
namespace {

/// Reverse-mode differentiation. Visits the forward nodes in reverse order; each op's rule emits its gradient nodes.
class Differentiator {
 public:
  Differentiator(Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry) {}

  void run() {
    const std::vector<Node> forward = graph_.nodes();
    trained_ = trained_nodes(graph_);
    for (auto node = forward.rbegin(); node != forward.rend(); ++node) {
      if (node->is_leaf()) continue;
      if (is_loss(*node) || has_cotangent(*node)) visit(*node);
    }
  }

  /// Emits the gradient nodes of `node` alone, whose first result has the gradient `cotangent` and whose operands all
  /// need one.
  void run(const Node& node, Value cotangent) {
    for (const Value& operand : node.operands) trained_.insert(operand.node);
    terms_[{node.id, 0}] = {{node.block, cotangent}};
    visit(node);
  }

 private:
  class Context;

  /// A term of a value's gradient, and the block whose node emitted it.
  struct Term {
    int block;
    Value value;
  };

  [[nodiscard]] bool is_loss(const Node& node) const {
    for (const Sink& sink : graph_.sinks) {
      if (sink.kind == Sink::Kind::loss && sink.value.node == node.id) return true;
    }
    return false;
  }

  [[nodiscard]] bool has_cotangent(const Node& node) const {
    for (int result = 0; result < static_cast<int>(node.results.size()); ++result) {
      if (terms_.contains({node.id, result})) return true;
    }
    return false;
  }

  void visit(const Node& node);

  Value emit_sum(const std::vector<Value>& values, int block, const std::string& name) {
    if (values.size() == 1) return values.front();
    return append_inferred(
               graph_, registry_,
               {.op = ops::kSum, .name = name, .operands = values, .block = block, .phase = Phase::backward})
        .front();
  }

  /// Sums the terms of a value's gradient: first per block, then over blocks in the producer's block. So if blocks are
  /// on different stages, each sends back one gradient and not one per use.
  std::optional<Value> total(Value value, int block, const std::string& name) {
    const auto found = terms_.find(value);
    if (found == terms_.end()) return std::nullopt;
    std::map<int, std::vector<Value>, std::greater<>> by_block;
    for (const Term& term : found->second) by_block[term.block].push_back(term.value);
    std::vector<Value> sums;
    for (const auto& [at, values] : by_block) sums.push_back(emit_sum(values, at, name + ".gradient"));
    const Value sum = emit_sum(sums, block, name + ".gradient");
    found->second = {{block, sum}};
    return sum;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  std::map<Value, std::vector<Term>> terms_;
  std::set<int> trained_;
};

class Differentiator::Context final : public GradientContext {
 public:
  Context(Differentiator& owner, Node node)
      : owner_(owner),
        node_(std::move(node)),
        begins_scaled_(owner.graph_.loss_scaling.has_value() && owner.is_loss(node_)) {}

  [[nodiscard]] const Graph& graph() const override { return owner_.graph_; }
  [[nodiscard]] const Node& node() const override { return node_; }

  std::optional<Value> cotangent(int index) override { return owner_.total(result(index), node_.block, node_.name); }

  [[nodiscard]] bool needs_gradient(int index) const override {
    const Value value = operand(index);
    return owner_.trained_.contains(value.node) && is_floating_point(owner_.graph_.type(value).dtype);
  }

  std::vector<Value> emit(int index, const std::string& op, std::vector<Value> operands,
                          Attributes attributes) override {
    const bool is_final = index != kReadByGradients && is_parameter(index) && !begins_scaled_;
    return append(op, std::move(operands), std::move(attributes), is_final ? Phase::weight : Phase::backward);
  }

  void contribute(int index, Value gradient) override {
    if (!needs_gradient(index)) return;
    require_dims_of_operand(index, gradient);
    if (begins_scaled_) {
      const Phase phase = is_parameter(index) ? Phase::weight : Phase::backward;
      gradient = append(ops::kScaleGradient, {gradient}, {}, phase).front();
    }
    if (is_parameter(index)) {
      owner_.graph_.sinks.push_back(
          {Sink::Kind::parameter_gradient, owner_.graph_.node(operand(index).node).name, gradient});
    } else {
      owner_.terms_[operand(index)].push_back({node_.block, gradient});
    }
  }

 private:
  [[nodiscard]] bool is_parameter(int index) const { return owner_.graph_.node(operand(index).node).is_parameter(); }

  std::vector<Value> append(const std::string& op, std::vector<Value> operands, Attributes attributes, Phase phase) {
    // The forward node's name, so that gradient nodes draw the same random numbers.
    return append_inferred(owner_.graph_, owner_.registry_,
                           {.op = op,
                            .name = node_.name,
                            .operands = std::move(operands),
                            .attributes = std::move(attributes),
                            .block = node_.block,
                            .phase = phase});
  }

  Differentiator& owner_;
  Node node_;
  /// True if the node is a loss whose gradient starts as the loss scale instead of 1.
  bool begins_scaled_;
};

void Differentiator::visit(const Node& node) {
  const GradientRule rule = registry_.get(node.op).gradient();
  if (!rule) {
    throw VerificationError("op '" + node.op + "' has no gradient, which node '" + node.name + "' needs");
  }
  Context context(*this, node);
  rule(context);
}

}  // namespace

bool reads_cotangent(const Graph& graph, const OpRegistry& registry, const Node& node) {
  if (node.is_leaf()) return true;
  Graph alone;
  alone.sizes = graph.sizes;
  const auto append_leaf = [&](const TensorType& type) {
    const std::string name = "leaf " + std::to_string(alone.nodes().size());
    return Value{alone.append({.op = "input", .name = name, .results = {type}}), 0};
  };
  Node copy = node;
  for (Value& operand : copy.operands) operand = append_leaf(graph.type(operand));
  const Value cotangent = append_leaf(node.results.front());
  const int id = alone.append(std::move(copy));
  try {
    Differentiator(alone, registry).run(Node(alone.node(id)), cotangent);
  } catch (const Error&) {
    return false;  // The gradients of losses refuse one. Other errors come again when the graph is differentiated.
  }
  return std::ranges::any_of(alone.nodes(), [&](const Node& each) { return contains(each.operands, cotangent); });
}

std::set<int> trained_nodes(const Graph& graph) {
  std::set<int> trained;
  for (const Parameter& parameter : graph.parameters) {
    const bool changes = parameter.role == ParameterRole::trained || parameter.role == ParameterRole::running_average;
    if (changes) trained.insert(parameter.value.node);
  }
  for (const Node& node : graph.nodes()) {
    const bool depends =
        std::ranges::any_of(node.operands, [&](const Value& operand) { return trained.contains(operand.node); });
    if (depends) trained.insert(node.id);
  }
  return trained;
}

void differentiate(Graph& graph, const OpRegistry& registry) {
  Differentiator(graph, registry).run();
  graph.remove_dead_nodes();
}

}  // namespace strata
