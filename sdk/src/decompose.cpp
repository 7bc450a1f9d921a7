#include "strata/op.hpp"

namespace strata {
namespace {

class Context final : public DecomposeContext {
 public:
  Context(Graph& graph, const OpRegistry& registry, std::vector<Node>& placed, Node node)
      : graph_(graph), registry_(registry), placed_(placed), node_(std::move(node)) {}

  [[nodiscard]] const Graph& graph() const override { return graph_; }
  [[nodiscard]] const Node& node() const override { return node_; }

  std::vector<Value> emit(const std::string& op, std::vector<Value> operands, Attributes attributes) override {
    std::vector<Value> results = append_inferred(graph_, registry_,
                                                 {.op = op,
                                                  .name = node_.name + "." + op,
                                                  .operands = std::move(operands),
                                                  .attributes = std::move(attributes),
                                                  .block = node_.block,
                                                  .phase = node_.phase});
    placed_.push_back(graph_.nodes().back());
    return results;
  }

  void replace(int index, Value value) override { replacements.emplace_back(Value{node_.id, index}, value); }

  std::vector<std::pair<Value, Value>> replacements;

 private:
  Graph& graph_;
  const OpRegistry& registry_;
  std::vector<Node>& placed_;
  Node node_;
};

}  // namespace

void decompose(Graph& graph, const OpRegistry& registry) {
  std::vector<Node> placed;
  std::vector<std::pair<Value, Value>> replacements;
  for (const Node& node : std::vector<Node>(graph.nodes())) {
    if (node.is_leaf()) {
      placed.push_back(node);
      continue;
    }
    const Decomposition rule = registry.get(node.op).decomposition();
    if (!rule) {
      placed.push_back(node);
      continue;
    }
    Context context(graph, registry, placed, node);
    rule(context);
    replacements.insert(replacements.end(), context.replacements.begin(), context.replacements.end());
  }
  graph.replace_nodes(std::move(placed));
  for (const auto& [from, to] : replacements) graph.replace_uses(from, to);
}

}  // namespace strata
