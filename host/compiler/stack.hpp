#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "loading/plugin_call.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// A strategy with its name in messages, such as "strategy 1 'ddp'".
struct NamedStrategy {
  std::string name;
  std::shared_ptr<const Strategy> strategy;
  /// Position among the configuration's [[strategy]] tables.
  int table = -1;

  [[nodiscard]] PluginOrigin origin() const { return {PluginKind::strategy, table, name}; }
  /// Calls a hook of the strategy. `Hooks`: the class of the hook. If the strategy does not derive from it, the result
  /// is a default one. Errors name the strategy and the hook.
  template <class Hooks = Strategy, class Call>
  auto ask(const char* hook, const Call& call) const {
    const auto* hooks = dynamic_cast<const Hooks*>(strategy.get());
    if (hooks == nullptr) return std::invoke_result_t<Call, const Hooks&>();
    return call_plugin(origin(), hook, [&] { return std::invoke(call, *hooks); });
  }
  /// An error that the host found in the strategy's answer.
  [[nodiscard]] PluginError error(const std::string& message) const { return {origin(), "", "", message}; }
};

/// A decision that at most one strategy of a stack may make, and the strategy that made it.
template <class Decision>
struct Claim {
  const NamedStrategy* claimant = nullptr;
  Decision decision;
};

/// Asks every strategy for a decision. `call` gets the strategy with its name, calls its hook, and returns a value that
/// converts to false for no preference. \throws PluginError that names both strategies if two decide on `what`.
template <class Call>
[[nodiscard]] auto find_claim(const std::vector<NamedStrategy>& strategies, const char* hook, const std::string& what,
                              const Call& call) {
  using Decision = decltype(call(strategies.front()));
  std::optional<Claim<Decision>> found;
  for (const NamedStrategy& each : strategies) {
    Decision decision = call_plugin(each.origin(), hook, [&] { return call(each); });
    if (!decision) continue;
    if (found) {
      throw each.error("decides on " + what + ", and so does " + found->claimant->name +
                       "; only one strategy of a stack may");
    }
    found = Claim<Decision>{&each, std::move(decision)};
  }
  return found;
}

/// All strategies of a run, with their common mesh and rules.
struct Stack {
  std::vector<NamedStrategy> strategies;
  /// The axes that each strategy adds.
  std::vector<std::vector<MeshAxis>> axes;
  Mesh mesh;
  std::vector<Rule> rules;
  /// Number of replicas: the product of the axes that shard "batch".
  std::int64_t replicas = 1;
  /// Unsynchronized axes with several ranks, and for each strategy those of its axes that are unsynchronized
  /// (ReplicaHooks::unsynchronized_axes).
  AxisSet unsynchronized;
  std::vector<std::vector<Axis>> unsynchronized_of;
  /// The axes with several ranks over which a strategy sums gradients itself (GradientHooks::self_reduced_axes), in
  /// mesh order, and the position of that strategy. Empty and -1 if the host sums all gradients.
  std::vector<Axis> reduced;
  int reducer = -1;
  /// The bucketing of gradients on which the strategies agree, or the default if none has a preference.
  GradientBuckets buckets;
  /// For each axis, the number of chunks of its collectives (ChunkedOverlap).
  std::map<Axis, int> chunks;

  /// The unsynchronized and the self-reduced axes. Along them, ranks of a training step have gradients of their own.
  [[nodiscard]] AxisSet apart() const;
  /// The strategy that adds `axis` to the mesh.
  [[nodiscard]] const NamedStrategy& owner(const Axis& axis) const;

  /// The mesh with its axes in the order in which they nest in a dimension, outermost first:
  /// 1. unsynchronized and self-reduced axes, because no activation may be gathered over them,
  /// 2. axes that shard one dimension only, which keep it in every op,
  /// 3. axes that shard several dimensions. Between ops they leave one for another, which costs a gather of each axis
  ///    inside of them.
  /// Each of the three keeps mesh order.
  [[nodiscard]] Mesh nesting() const;
};

/// Asks the strategies for axes and rules. \throws PluginError if two axes have one name, if the size of an axis is
/// impossible, if a rule names an unknown axis, if one maps another dimension than "batch" onto an unsynchronized or
/// self-reduced axis, if two strategies reduce gradients or chunk the collectives of an axis, if they differ in their
/// buckets, or if sizes of buckets or numbers of chunks are not positive.
[[nodiscard]] Stack make_stack(std::vector<NamedStrategy> strategies);

/// What the phases of a compilation find out about the strategies.
struct Findings {
  /// Mesh axes that shard something.
  std::set<Axis> used_axes = {};
  /// Names of strategies that changed something.
  std::set<std::string> effective = {};
  /// What strategies could not do for a node (NodeToLower::note), with their names.
  std::set<std::string> notes = {};
  /// Dimensions that rules could not divide.
  std::set<Undivided> undivided = {};

  void add(Findings more);
};

/// Names of strategies without effect: `found` lacks them, and neither they nor their rules have axes of several ranks.
[[nodiscard]] std::vector<std::string> idle_strategies(const Stack& stack, const Findings& found);

/// \throws PluginError if an axis of several ranks shards nothing. The message lists the sizes
/// of the dims that its rules name.
void require_every_axis_used(const Stack& stack, const Graph& graph, const Findings& found);

/// A global batch, cut into micro-batches.
struct BatchSplit {
  /// Of one micro-batch over all replicas.
  std::int64_t samples = 1;
  int micro_batches = 1;
};

/// `micro`: the samples of one micro-batch on one replica. \throws OptionError that names "global" or "micro" for
/// sizes that do not divide or cannot be counted.
[[nodiscard]] BatchSplit split_batch(std::int64_t global, std::int64_t micro, std::int64_t replicas);

}  // namespace strata::host
