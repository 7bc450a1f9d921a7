#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// All communication of one kind over the same axes in one step of one rank.
struct CommunicationSummary {
  /// Kind of the communication: "all_reduce", "send", …
  std::string kind;
  /// Axes: "dp", "dp+cp".
  std::string axes;
  /// On average, if the summary is of several steps.
  double calls = 0;
  /// Bytes that the rank sends, counted as by ring algorithms (strata::bytes_sent).
  double bytes = 0;
};

/// The communication of a rank in `step`, over the whole schedule, sorted by kind and axes.
[[nodiscard]] std::vector<CommunicationSummary> summarize_communication(const Program& program, std::uint64_t step = 0);

/// The communication of a rank in an average step, over all variants of the step (step_variants()), sorted by kind and
/// axes.
[[nodiscard]] std::vector<CommunicationSummary> average_communication(const Program& program);

/// Bytes that a rank sends in `step`.
[[nodiscard]] double sent_bytes(const Program& program, std::uint64_t step);

/// True for a parameter whose elements count as the model's: frozen ones do, constants and running averages do not.
[[nodiscard]] bool is_counted(const Parameter& parameter);

/// Elements of all counted parameters of the model. Of a parameter that is stored as several others, such as codes and
/// scales, its own elements.
[[nodiscard]] std::int64_t parameter_count(const Graph& graph);

/// Floating-point operations of one step per token, from the costs of the ops: forward, and in a training graph also
/// backward.
[[nodiscard]] double flops_per_token(const Graph& graph, const OpRegistry& registry);

/// All transfers of one rank in one step between two places, in one direction.
struct TransferSummary {
  MemoryPlace from = MemoryPlace::device;
  MemoryPlace to = MemoryPlace::device;
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

/// The transfers of a rank in one step, over the whole schedule, sorted by places.
[[nodiscard]] std::vector<TransferSummary> summarize_transfers(const Program& program);

/// Floating-point operations of the model's matrix products in one pass of a training graph, forward and backward, as
/// the model FLOPs utilisation counts them (Chowdhery et al., "PaLM", 2022, appendix B). A product costs twice as much
/// in the backward pass as in the forward pass, or as much if only one of its factors needs a gradient. Work that a
/// strategy or a kernel repeats, such as recomputation, does not count. Unlike there, masked keys of attention do not
/// count either.
[[nodiscard]] double model_flops(const Graph& graph, const OpRegistry& registry);

/// The type of the factors in which most of those operations are done.
[[nodiscard]] DType product_type(const Graph& graph, const OpRegistry& registry);

/// Number of elements whose losses a micro-batch sums if none is left out, such as batch · seq for the tokens of a
/// language model: the elements of the integers from which the graph computes its count.
[[nodiscard]] std::int64_t loss_elements(const Graph& graph);

}  // namespace strata::host
