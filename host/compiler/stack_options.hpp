#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/stack.hpp"
#include "strata/graph.hpp"

namespace strata::host {

/// The bucketing on which the strategies agree, or the default if none has a preference. \throws PluginError that names
/// both strategies if two differ, or if the bucket size is not positive.
[[nodiscard]] GradientBuckets bucket_options(const std::vector<NamedStrategy>& strategies);

/// For each axis, the number of chunks of its collectives (ChunkedOverlap). \throws PluginError if two strategies
/// answer for an axis, if no strategy adds the axis, or if the number is below 1.
[[nodiscard]] std::map<Axis, int> chunk_counts(const Stack& stack);

/// Names of strategies without effect: each of their axes has one rank, and they are not in `effective`.
[[nodiscard]] std::vector<std::string> idle_strategies(const Stack& stack, const std::set<std::string>& effective);

/// \throws PluginError if an axis of several ranks is not in `used`, so it shards nothing. The message lists the sizes
/// of the dims that its rules name.
void require_every_axis_used(const Stack& stack, const Graph& graph, const std::set<Axis>& used);

}  // namespace strata::host
