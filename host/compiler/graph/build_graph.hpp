#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile_request.hpp"
#include "strata/graph.hpp"

namespace strata::host {

/// A logical graph and the strategies whose rewrites changed it.
struct BuiltGraph {
  Graph graph;
  std::vector<std::string> rewritten_by;
};

/// Builds the logical graph, and verifies it after each step:
///   build ─► continue ─► rewrite_forward ─► differentiate ─► rewrite ─► decompose
/// `samples`: the size of "batch", those of one micro-batch over all replicas. \throws PluginError if the model or a
/// strategy refuses. \throws VerificationError for defects.
[[nodiscard]] BuiltGraph build_graph(const CompileRequest& request, std::int64_t samples);

/// The graph that the request's model builds, before any strategy rewrites it. `samples`: as for build_graph().
[[nodiscard]] Graph build_model_graph(const CompileRequest& request, GraphMode mode, std::int64_t samples);

/// The graph after rewrite_forward. It has no gradients, and ops with a decomposition are still whole.
[[nodiscard]] Graph build_forward_graph(const CompileRequest& request, std::int64_t samples);

/// The values that nodes of the graph read.
[[nodiscard]] std::set<Value> read_values(const Graph& graph);

/// Removes the parameters that no node reads. Strategies choose types by the readers of parameters, and these have
/// none.
void drop_unread_parameters(Graph& graph);

}  // namespace strata::host
