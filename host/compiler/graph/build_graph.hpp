#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/continue_sequence.hpp"
#include "compiler/optimizer_groups.hpp"
#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/model.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// The inputs of a logical graph.
struct GraphRequest {
  const Model& model;
  const PluginOrigin& model_origin;
  const std::vector<NamedStrategy>& strategies;
  const OpRegistry& registry;
  GraphMode mode = GraphMode::training;
  DType float_type = DType::f32;
  /// Size of "batch": the samples of one micro-batch over all replicas.
  std::int64_t samples = 1;
  /// Sizes that the model's options and the data fix, without "batch".
  const DimSizes& sizes;
  /// Graph outputs to keep, such as "logits" for generation. Empty: keeps losses and their count.
  const std::vector<std::string>& outputs;
  /// Parameters of frozen groups get no gradients.
  const OptimizerSettings& optimizer;
  /// Set for a graph that computes new positions of texts only.
  const std::optional<SequenceContinuation>& continuation;
};

/// A logical graph and the strategies whose rewrites changed it.
struct BuiltGraph {
  Graph graph;
  std::vector<std::string> rewritten_by;
};

/// Builds the logical graph, and verifies it after each step:
///   build ─► continue ─► rewrite_forward ─► differentiate ─► rewrite ─► decompose
/// \throws PluginError if the model or a strategy refuses. \throws VerificationError for defects.
[[nodiscard]] BuiltGraph build_graph(const GraphRequest& request);

/// The graph after rewrite_forward. It has no gradients, and ops with a decomposition are still whole.
[[nodiscard]] Graph build_forward_graph(const GraphRequest& request);

/// The values that nodes of the graph read.
[[nodiscard]] std::set<Value> read_values(const Graph& graph);

}  // namespace strata::host
