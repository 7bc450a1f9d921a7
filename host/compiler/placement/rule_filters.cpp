#include "compiler/placement/rule_filters.hpp"

#include <algorithm>

namespace strata::host {
namespace {

bool has_filter(const std::vector<Rule>& rules) {
  return std::ranges::any_of(rules, [](const Rule& rule) { return static_cast<bool>(rule.filter); });
}

std::vector<bool> answers(const std::vector<Rule>& rules, const RuleTarget& target) {
  std::vector<bool> found;
  for (const Rule& rule : rules) {
    if (rule.filter) found.push_back(rule.filter(target));
  }
  return found;
}

}  // namespace

RuleTarget rule_target(const Node& node, const IterationSpace& space, const std::optional<PositionMixing>& mixing) {
  return {node.op, space.dims(), mixing ? &*mixing : nullptr, node.name};
}

RuleTarget rule_target(const Graph& graph, Value value) {
  return {.dims = graph.type(value).dims, .name = graph.node(value.node).name};
}

std::vector<bool> filter_answers(const std::vector<Rule>& rules, const OpRegistry& registry, const Graph& graph,
                                 const Node& node) {
  if (!has_filter(rules)) return {};
  const OpDefinition& op = registry.get(node.op);
  const std::optional<PositionMixing> mixing = op.mixing(graph, node);
  return answers(rules, rule_target(node, op.iteration(graph, node), mixing));
}

std::vector<bool> filter_answers(const std::vector<Rule>& rules, const Graph& graph, Value value) {
  if (!has_filter(rules)) return {};
  return answers(rules, rule_target(graph, value));
}

}  // namespace strata::host
