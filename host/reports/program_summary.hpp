#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// All communication of one kind over the same axes in one step of one rank.
struct CommunicationSummary {
  /// Kind of the communication: "all_reduce", "send", …
  std::string kind;
  /// Axes: "dp", "dp+cp".
  std::string axes;
  std::int64_t calls = 0;
  /// Bytes that the rank sends, counted as by ring algorithms (strata::bytes_sent).
  double bytes = 0;
};

/// The communication of a rank in `step`, over the whole schedule, sorted by kind and axes.
[[nodiscard]] std::vector<CommunicationSummary> summarize_communication(const Program& program, std::uint64_t step = 0);

/// Communication of one kind over one set of axes, as an average over all variants of the step (step_variants()).
struct AverageCommunication {
  std::string kind;
  std::string axes;
  double calls = 0;
  double bytes = 0;
};

/// The communication of a rank in an average step, sorted by kind and axes.
[[nodiscard]] std::vector<AverageCommunication> average_communication(const Program& program);

/// Bytes that a rank sends in `step`.
[[nodiscard]] double sent_bytes(const Program& program, std::uint64_t step);

/// Elements of all parameters of the model, frozen ones included and constants left out. Of a parameter that is stored
/// as several others, such as codes and scales, its own elements.
[[nodiscard]] std::int64_t parameter_count(const Graph& graph);

/// Floating-point operations of one step per token, from the costs of the ops: forward, and in a training graph also
/// backward.
[[nodiscard]] double flops_per_token(const Graph& graph, const OpRegistry& registry);

}  // namespace strata::host
