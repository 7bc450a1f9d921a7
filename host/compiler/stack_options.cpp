#include "compiler/stack_options.hpp"

#include <algorithm>
#include <optional>

namespace strata::host {

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
    if (spans || effective.contains(each.name) || (axes.empty() && advises(each))) continue;
    idle.push_back(each.name);
  }
  return idle;
}

}  // namespace strata::host
