#include "compiler/stack.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace strata::host {
namespace {

/// Limit of rules, because every op and tensor walks those with a filter.
constexpr std::size_t kMostRules = 10'000;

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
  return [origin = by.origin(), filter = std::move(filter)](const RuleTarget& target) {
    return call_plugin(origin, "rules", [&] { return filter(target); });
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
      if (rules.size() <= kMostRules) continue;
      throw each.error("adds rules until the stack has more than " + std::to_string(kMostRules) +
                       "; accepted: at most that many");
    }
  }
  return rules;
}

void require_own_axes(const NamedStrategy& strategy, const std::vector<MeshAxis>& own, const std::vector<Axis>& named,
                      const std::string& before, const std::string& after) {
  for (const Axis& axis : named) {
    const bool is_own = std::any_of(own.begin(), own.end(), [&](const MeshAxis& each) { return each.name == axis; });
    if (!is_own) throw strategy.error(before + " mesh axis '" + axis + "'" + after + ", which is not its own");
  }
}

/// By strategy.
std::vector<std::vector<Axis>> collect_unsynchronized_axes(const std::vector<NamedStrategy>& strategies,
                                                           const std::vector<std::vector<MeshAxis>>& axes) {
  std::vector<std::vector<Axis>> unsynchronized;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    unsynchronized.push_back(strategies[i].ask<ReplicaHooks>(
        "unsynchronized_axes", [](const ReplicaHooks& hooks) { return hooks.unsynchronized_axes(); }));
    require_own_axes(strategies[i], axes[i], unsynchronized.back(), "makes", " unsynchronized");
  }
  return unsynchronized;
}

/// Finds the strategy that reduces gradients itself, and its axes with several ranks.
void find_reducer(Stack& stack) {
  for (std::size_t i = 0; i < stack.strategies.size(); ++i) {
    const NamedStrategy& each = stack.strategies[i];
    const std::vector<Axis> axes = each.ask<GradientHooks>(
        "self_reduced_axes", [](const GradientHooks& hooks) { return hooks.self_reduced_axes(); });
    require_own_axes(each, stack.axes[i], axes, "reduces gradients over", "");
    for (const Axis& axis : axes) {
      if (stack.unsynchronized.contains(axis)) {
        throw each.error("reduces gradients over mesh axis '" + axis + "', which it also makes unsynchronized");
      }
    }
    std::vector<Axis> several;
    for (const MeshAxis& axis : stack.mesh.axes()) {
      if (axis.size > 1 && std::find(axes.begin(), axes.end(), axis.name) != axes.end()) several.push_back(axis.name);
    }
    if (several.empty()) continue;
    if (stack.reducer >= 0) {
      throw each.error("reduces gradients itself, and so does " +
                       stack.strategies[static_cast<std::size_t>(stack.reducer)].name +
                       "; only one strategy of a stack may");
    }
    stack.reducer = static_cast<int>(i);
    stack.reduced = std::move(several);
  }
}

/// Along "batch" only, every rank has a whole gradient, of its own samples.
void require_only_batch_is_split_over_axes_apart(const Stack& stack) {
  for (const Rule& rule : stack.rules) {
    const bool is_unsynchronized = stack.unsynchronized.contains(rule.axis);
    const bool is_reduced = std::find(stack.reduced.begin(), stack.reduced.end(), rule.axis) != stack.reduced.end();
    if (rule.dim == "batch" || (!is_unsynchronized && !is_reduced)) continue;
    throw stack.owner(rule.axis).error((is_unsynchronized ? "makes mesh axis '" + rule.axis + "' unsynchronized"
                                                          : "reduces gradients over mesh axis '" + rule.axis + "'") +
                                       ", but dimension '" + rule.dim + "' is mapped onto it; accepted: batch");
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

Mesh Stack::nesting() const {
  std::map<Axis, std::set<Dim>> dims;
  for (const Rule& rule : rules) dims[rule.axis].insert(rule.dim);
  const auto level = [&](const MeshAxis& axis) {
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), axis.name) != reduced.end();
    if (is_reduced || unsynchronized.contains(axis.name)) return 0;
    return dims[axis.name].size() < 2 ? 1 : 2;
  };
  std::vector<MeshAxis> nested = mesh.axes();
  std::stable_sort(nested.begin(), nested.end(),
                   [&](const MeshAxis& a, const MeshAxis& b) { return level(a) < level(b); });
  return Mesh(std::move(nested));
}

Stack make_stack(std::vector<NamedStrategy> strategies) {
  Stack stack;
  stack.axes = collect_axes(strategies);
  stack.mesh = build_mesh(strategies, stack.axes);
  stack.rules = collect_rules(strategies, stack.mesh);
  stack.replicas = replica_count(stack.rules, stack.mesh);
  stack.unsynchronized_of = collect_unsynchronized_axes(strategies, stack.axes);
  stack.strategies = std::move(strategies);
  for (const std::vector<Axis>& axes : stack.unsynchronized_of) {
    for (const Axis& axis : axes) {
      if (stack.mesh.size(axis) > 1) stack.unsynchronized.insert(axis);
    }
  }
  find_reducer(stack);
  require_only_batch_is_split_over_axes_apart(stack);
  return stack;
}

}  // namespace strata::host
