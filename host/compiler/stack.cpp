#include "compiler/stack.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace strata::host {
namespace {

/// By strategy.
std::vector<std::vector<MeshAxis>> collect_axes(const std::vector<NamedStrategy>& strategies) {
  std::vector<std::vector<MeshAxis>> axes;
  for (const NamedStrategy& each : strategies) {
    axes.push_back(each.ask("axes", [](const Strategy& strategy) { return strategy.axes(); }));
  }
  return axes;
}

Mesh build_mesh(const std::vector<NamedStrategy>& strategies, const std::vector<std::vector<MeshAxis>>& axes) {
  Mesh mesh;
  std::map<Axis, std::string> adders;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const NamedStrategy& strategy = strategies[i];
    for (const MeshAxis& axis : axes[i]) {
      const auto [adder, added] = adders.try_emplace(axis.name, strategy.name);
      if (!added) {
        throw strategy.error("adds mesh axis '" + axis.name + "', and so does " + adder->second +
                             "; give each axis a name of its own");
      }
      if (axis.name.empty()) throw strategy.error("adds a mesh axis without a name");
    }
    // The mesh refuses sizes, in the name of the strategy whose axes are one too many.
    std::vector<MeshAxis> together = mesh.axes();
    together.insert(together.end(), axes[i].begin(), axes[i].end());
    mesh = call_plugin(strategy.origin(), "axes", [&] { return Mesh(together); });
  }
  return mesh;
}

/// The filter, whose failures name the strategy.
RuleFilter guarded(const NamedStrategy& by, RuleFilter filter) {
  if (!filter) return {};
  return [origin = by.origin(), filter = std::move(filter)](const std::string& name, const Dims& dims) {
    return call_plugin(origin, "rules", [&] { return filter(name, dims); });
  };
}

std::vector<Rule> collect_rules(const std::vector<NamedStrategy>& strategies, const Mesh& mesh) {
  std::vector<Rule> rules;
  for (const NamedStrategy& each : strategies) {
    for (Rule& rule : each.ask("rules", [](const Strategy& strategy) { return strategy.rules(); })) {
      if (!mesh.has(rule.axis)) {
        throw each.error("maps dimension '" + rule.dim + "' onto mesh axis '" + rule.axis +
                         "', which no strategy adds");
      }
      rule.filter = guarded(each, std::move(rule.filter));
      rules.push_back(std::move(rule));
    }
  }
  return rules;
}

/// By strategy.
std::vector<std::vector<Axis>> collect_loose_axes(const std::vector<NamedStrategy>& strategies,
                                                  const std::vector<std::vector<MeshAxis>>& axes) {
  std::vector<std::vector<Axis>> loose;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    loose.push_back(strategies[i].ask("loose_axes", [](const Strategy& strategy) { return strategy.loose_axes(); }));
    for (const Axis& axis : loose.back()) {
      const bool own =
          std::any_of(axes[i].begin(), axes[i].end(), [&](const MeshAxis& each) { return each.name == axis; });
      if (!own) throw strategies[i].error("makes mesh axis '" + axis + "' loose, which is not its own");
    }
  }
  return loose;
}

/// Gradients of replicas that train apart belong together only along "batch".
void require_loose_axes_split_batch_only(const Stack& stack) {
  for (const Rule& rule : stack.rules) {
    if (rule.dim == "batch" || !stack.loose.contains(rule.axis)) continue;
    throw stack.owner(rule.axis).error("makes mesh axis '" + rule.axis + "' loose, but dimension '" + rule.dim +
                                       "' is mapped onto it; accepted: batch");
  }
}

std::int64_t replica_count(const std::vector<Rule>& rules, const Mesh& mesh) {
  std::set<Axis> axes;
  for (const Rule& rule : rules) {
    if (rule.dim == "batch" && !rule.filter) axes.insert(rule.axis);
  }
  return mesh.size(std::vector<Axis>(axes.begin(), axes.end()));
}

}  // namespace

const NamedStrategy& Stack::owner(const Axis& axis) const {
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const bool adds =
        std::any_of(axes[i].begin(), axes[i].end(), [&](const MeshAxis& added) { return added.name == axis; });
    if (adds) return strategies[i];
  }
  throw VerificationError("no strategy adds mesh axis '" + axis + "'");
}

Stack make_stack(std::vector<NamedStrategy> strategies) {
  Stack stack;
  stack.axes = collect_axes(strategies);
  stack.mesh = build_mesh(strategies, stack.axes);
  stack.rules = collect_rules(strategies, stack.mesh);
  stack.replicas = replica_count(stack.rules, stack.mesh);
  stack.loose_of = collect_loose_axes(strategies, stack.axes);
  stack.strategies = std::move(strategies);
  for (const std::vector<Axis>& axes : stack.loose_of) {
    for (const Axis& axis : axes) {
      if (stack.mesh.size(axis) > 1) stack.loose.insert(axis);
    }
  }
  require_loose_axes_split_batch_only(stack);
  return stack;
}

}  // namespace strata::host
