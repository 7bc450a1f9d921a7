#include "compiler/stack_options.hpp"

#include <algorithm>
#include <optional>

namespace strata::host {
namespace {

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

}  // namespace

GradientBuckets bucket_options(const std::vector<NamedStrategy>& strategies) {
  std::optional<GradientBuckets> agreed;
  const NamedStrategy* first = nullptr;
  for (const NamedStrategy& each : strategies) {
    const auto options =
        each.ask("gradient_buckets", [](const Strategy& strategy) { return strategy.gradient_buckets(); });
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
  std::map<Axis, std::string> by;
  for (const NamedStrategy& each : stack.strategies) {
    const auto wanted =
        each.ask("chunked_overlap", [](const Strategy& strategy) { return strategy.chunked_overlap(); });
    if (!wanted) continue;
    if (!stack.mesh.has(wanted->axis)) {
      throw each.error("cuts collectives over mesh axis '" + wanted->axis + "', which no strategy adds");
    }
    if (wanted->chunks < 1) {
      throw each.error("cuts collectives over '" + wanted->axis + "' into " + std::to_string(wanted->chunks) +
                       " parts; accepted: 1 or more");
    }
    const auto [known, added] = by.try_emplace(wanted->axis, each.name);
    if (!added) {
      throw each.error("cuts collectives over mesh axis '" + wanted->axis + "' into parts, and so does " +
                       known->second + "; only one strategy of a stack may");
    }
    chunks[wanted->axis] = wanted->chunks;
  }
  return chunks;
}

namespace {

/// True if the strategy has an opinion on how other strategies' communication is done.
bool advises(const NamedStrategy& by) {
  return by.ask("gradient_buckets", [](const Strategy& strategy) { return strategy.gradient_buckets().has_value(); }) ||
         by.ask("chunked_overlap", [](const Strategy& strategy) { return strategy.chunked_overlap().has_value(); });
}

}  // namespace

std::vector<std::string> idle_strategies(const Stack& stack, const std::set<std::string>& effective) {
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < stack.strategies.size(); ++i) {
    const NamedStrategy& each = stack.strategies[i];
    const std::vector<MeshAxis>& axes = stack.axes[i];
    const bool spans = std::any_of(axes.begin(), axes.end(), [](const MeshAxis& axis) { return axis.size > 1; });
    // Even a single replica takes outer steps.
    const bool works_on_buckets = !stack.unsynchronized_of[i].empty();
    if (spans || works_on_buckets || effective.contains(each.name) || (axes.empty() && advises(each))) continue;
    idle.push_back(each.name);
  }
  return idle;
}

void require_every_axis_used(const Stack& stack, const Graph& graph, const std::set<Axis>& used) {
  for (const MeshAxis& axis : stack.mesh.axes()) {
    if (axis.size == 1 || used.contains(axis.name)) continue;
    throw stack.owner(axis.name).error("adds mesh axis '" + axis.name + "' of size " + std::to_string(axis.size) +
                                       ", which shards nothing: " + why_unused(stack, graph, axis.name));
  }
}

}  // namespace strata::host
