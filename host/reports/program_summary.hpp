#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// All communication of one kind over the same axes in one step of a rank.
struct CommunicationSummary {
  /// "all_reduce", "send", …
  std::string kind;
  /// "dp", "dp+cp".
  std::string axes;
  std::int64_t calls = 0;
  /// Bytes that the rank sends, by the usual ring counts (see strata::bytes_sent).
  double bytes = 0;
};

/// What a rank communicates in one step, counted over the schedule; sorted by kind and axes.
[[nodiscard]] std::vector<CommunicationSummary> summarize_communication(const Program& program);

/// Trained numbers of the whole model.
[[nodiscard]] std::int64_t parameter_count(const Graph& graph);

/// Floating-point operations of one step divided by its tokens, from the ops' own costs: forward and, in a training
/// graph, backward.
[[nodiscard]] double flops_per_token(const Graph& graph, const OpRegistry& registry);

}  // namespace strata::host
