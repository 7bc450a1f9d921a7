#include "compiler/stack.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Limit of rules, because every op and tensor walks those with a filter.
constexpr std::size_t kMostRules = 10'000;

/// By strategy.
std::vector<std::vector<MeshAxis>> collect_axes(const std::vector<NamedStrategy>& strategies) {
  std::vector<std::vector<MeshAxis>> axes;
  for (const NamedStrategy& each : strategies) {
    axes.push_back(each.ask("axes", &Strategy::axes));
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
RuleFilter guarded(const NamedStrategy& strategy, RuleFilter filter) {
  if (!filter) return {};
  return [origin = strategy.origin(), filter = std::move(filter)](const RuleTarget& target) {
    return call_plugin(origin, "rules", [&] { return filter(target); });
  };
}

std::vector<Rule> collect_rules(const std::vector<NamedStrategy>& strategies, const Mesh& mesh) {
  std::vector<Rule> rules;
  for (const NamedStrategy& each : strategies) {
    for (Rule& rule : each.ask("rules", &Strategy::rules)) {
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

bool has_axis(const std::vector<MeshAxis>& axes, const Axis& axis) {
  return std::ranges::any_of(axes, [&](const MeshAxis& each) { return each.name == axis; });
}

void require_own_axes(const NamedStrategy& strategy, const std::vector<MeshAxis>& own, const std::vector<Axis>& named,
                      const std::string& before, const std::string& after) {
  for (const Axis& axis : named) {
    if (!has_axis(own, axis))
      throw strategy.error(before + " mesh axis '" + axis + "'" + after + ", which is not its own");
  }
}

/// By strategy.
std::vector<std::vector<Axis>> collect_unsynchronized_axes(const std::vector<NamedStrategy>& strategies,
                                                           const std::vector<std::vector<MeshAxis>>& axes) {
  std::vector<std::vector<Axis>> unsynchronized;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    unsynchronized.push_back(
        strategies[i].ask<ReplicaHooks>("unsynchronized_axes", &ReplicaHooks::unsynchronized_axes));
    require_own_axes(strategies[i], axes[i], unsynchronized.back(), "makes", " unsynchronized");
  }
  return unsynchronized;
}

/// Finds the strategy that reduces gradients itself, and its axes with several ranks.
void find_reducer(Stack& stack) {
  for (std::size_t i = 0; i < stack.strategies.size(); ++i) {
    const NamedStrategy& each = stack.strategies[i];
    const std::vector<Axis> axes = each.ask<GradientHooks>("self_reduced_axes", &GradientHooks::self_reduced_axes);
    require_own_axes(each, stack.axes[i], axes, "reduces gradients over", "");
    for (const Axis& axis : axes) {
      if (stack.unsynchronized.contains(axis)) {
        throw each.error("reduces gradients over mesh axis '" + axis + "', which it also makes unsynchronized");
      }
    }
    std::vector<Axis> several;
    for (const MeshAxis& axis : stack.mesh.axes()) {
      if (axis.size > 1 && contains(axes, axis.name)) several.push_back(axis.name);
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
  const AxisSet apart = stack.apart();
  for (const Rule& rule : stack.rules) {
    if (rule.dim == "batch" || !apart.contains(rule.axis)) continue;
    const bool is_unsynchronized = stack.unsynchronized.contains(rule.axis);
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

/// Why an axis shards nothing: the sizes that it does not divide, alone or together with the other axes of the dim.
std::string why_unused(const Stack& stack, const Graph& graph, const Axis& axis) {
  std::set<Dim> dims;  // a model may give a size to a dimension that none of its values has
  for (const Node& node : graph.nodes()) {
    for (const TensorType& result : node.results) dims.insert(result.dims.begin(), result.dims.end());
  }
  std::set<Dim> named;
  std::set<std::string> sizes;
  bool is_chosen = false;
  for (const Rule& rule : stack.rules) {
    if (rule.axis != axis) continue;
    named.insert(rule.dim);
    if (!dims.contains(rule.dim)) continue;
    const auto derived = graph.derived.find(rule.dim);
    is_chosen = is_chosen || derived == graph.derived.end();
    sizes.insert(rule.dim + " = " + std::to_string(graph.sizes.at(rule.dim)) +
                 (derived == graph.derived.end() ? "" : " (computed from " + derived->second + ")"));
  }
  if (named.empty()) return "no rule maps a dimension onto it";
  if (sizes.empty()) {
    return "the model has no dimension that its rules name: " + join({named.begin(), named.end()}, ", ");
  }
  return "found " + join({sizes.begin(), sizes.end()}, ", ") +
         "; accepted: " + (is_chosen ? "one that is a multiple" : "settings that make it a multiple") +
         " of the sizes of all axes that shard it, twice for zigzag";
}

/// A program lists its tasks for every micro-batch, in 12 bytes each.
constexpr std::int64_t kMostMicroBatches = 1 << 20;

/// True if the strategy has an opinion on how other strategies' communication is done.
bool advises(const NamedStrategy& named) {
  return named.ask("gradient_buckets", &Strategy::gradient_buckets) ||
         named.ask("chunked_overlap", &Strategy::chunked_overlap);
}

/// True if the strategy maps a dimension onto an axis of several ranks, which may be another strategy's.
bool shards(const NamedStrategy& named, const Mesh& mesh) {
  const std::vector<Rule> rules = named.ask("rules", &Strategy::rules);
  return std::ranges::any_of(rules, [&](const Rule& rule) { return mesh.size(rule.axis) > 1; });
}

GradientBuckets bucket_options(const std::vector<NamedStrategy>& strategies) {
  std::optional<GradientBuckets> agreed;
  const NamedStrategy* first = nullptr;
  for (const NamedStrategy& each : strategies) {
    const auto options = each.ask("gradient_buckets", &Strategy::gradient_buckets);
    if (!options) continue;
    if (options->bytes < 1) {
      throw each.error("reduces gradients in buckets of " + std::to_string(options->bytes) +
                       " bytes; accepted: 1 or more");
    }
    if (agreed && *agreed != *options) {
      const auto text = [](const GradientBuckets& buckets) {
        return std::to_string(buckets.bytes) + " bytes " + (buckets.overlap ? "with" : "without") + " overlap";
      };
      throw each.error("reduces gradients in buckets of " + text(*options) + ", and " + first->name +
                       " in buckets of " + text(*agreed) + "; set the same in both");
    }
    if (!agreed) first = &each;
    agreed = options;
  }
  return agreed.value_or(GradientBuckets{});
}

std::map<Axis, int> chunk_counts(const Stack& stack) {
  std::map<Axis, int> chunks;
  std::map<Axis, std::string> owners;
  for (const NamedStrategy& each : stack.strategies) {
    const auto wanted = each.ask("chunked_overlap", &Strategy::chunked_overlap);
    if (!wanted) continue;
    if (!stack.mesh.has(wanted->axis)) {
      throw each.error("cuts collectives over mesh axis '" + wanted->axis + "', which no strategy adds");
    }
    if (wanted->chunks < 1) {
      throw each.error("cuts collectives over '" + wanted->axis + "' into " + std::to_string(wanted->chunks) +
                       " parts; accepted: 1 or more");
    }
    const auto [known, added] = owners.try_emplace(wanted->axis, each.name);
    if (!added) {
      throw each.error("cuts collectives over mesh axis '" + wanted->axis + "' into parts, and so does " +
                       known->second + "; only one strategy of a stack may");
    }
    chunks[wanted->axis] = wanted->chunks;
  }
  return chunks;
}

}  // namespace

const NamedStrategy& Stack::owner(const Axis& axis) const {
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    if (has_axis(axes[i], axis)) return strategies[i];
  }
  throw VerificationError("no strategy adds mesh axis '" + axis + "'");
}

AxisSet Stack::apart() const {
  AxisSet axes = unsynchronized;
  axes.insert(reduced.begin(), reduced.end());
  return axes;
}

Mesh Stack::nesting() const {
  std::map<Axis, std::set<Dim>> dims;
  for (const Rule& rule : rules) dims[rule.axis].insert(rule.dim);
  const auto level = [&, outermost = apart()](const MeshAxis& axis) {
    if (outermost.contains(axis.name)) return 0;
    return dims[axis.name].size() < 2 ? 1 : 2;
  };
  std::vector<MeshAxis> nested = mesh.axes();
  std::ranges::stable_sort(nested, [&](const MeshAxis& a, const MeshAxis& b) { return level(a) < level(b); });
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
  stack.buckets = bucket_options(stack.strategies);
  stack.chunks = chunk_counts(stack);
  return stack;
}

void Findings::add(Findings more) {
  used_axes.merge(more.used_axes);
  effective.merge(more.effective);
  notes.merge(more.notes);
  undivided.merge(more.undivided);
}

std::vector<std::string> idle_strategies(const Stack& stack, const Findings& found) {
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < stack.strategies.size(); ++i) {
    const NamedStrategy& each = stack.strategies[i];
    const std::vector<MeshAxis>& axes = stack.axes[i];
    const bool spans = std::ranges::any_of(axes, [](const MeshAxis& axis) { return axis.size > 1; });
    // Even a single replica takes outer steps.
    const bool works_on_buckets = !stack.unsynchronized_of[i].empty();
    const bool acts = spans || works_on_buckets || shards(each, stack.mesh) || found.effective.contains(each.name);
    if (!acts && (!axes.empty() || !advises(each))) idle.push_back(each.name);
  }
  return idle;
}

void require_every_axis_used(const Stack& stack, const Graph& graph, const Findings& found) {
  for (const MeshAxis& axis : stack.mesh.axes()) {
    if (axis.size == 1 || found.used_axes.contains(axis.name)) continue;
    throw stack.owner(axis.name).error("adds mesh axis '" + axis.name + "' of size " + std::to_string(axis.size) +
                                       ", which shards nothing: " + why_unused(stack, graph, axis.name));
  }
}

BatchSplit split_batch(std::int64_t global, std::int64_t micro, std::int64_t replicas) {
  std::int64_t samples = 0;
  if (__builtin_mul_overflow(micro, replicas, &samples)) {
    throw OptionError("micro", "found " + std::to_string(micro) + "; times " + std::to_string(replicas) +
                                   " replicas that is too large to count");
  }
  if (global % samples != 0) {
    throw OptionError("global", "found " + std::to_string(global) + "; accepted: a multiple of " +
                                    std::to_string(samples) + ", which is batch.micro (" + std::to_string(micro) +
                                    ") times the number of replicas (" + std::to_string(replicas) + ")");
  }
  const std::int64_t micro_batches = global / samples;
  if (micro_batches > kMostMicroBatches) {
    throw OptionError("global", "found " + std::to_string(global) + ", which is " + std::to_string(micro_batches) +
                                    " micro-batches; accepted: at most " + std::to_string(kMostMicroBatches) +
                                    ", with a larger batch.micro");
  }
  return {samples, static_cast<int>(micro_batches)};
}

}  // namespace strata::host
