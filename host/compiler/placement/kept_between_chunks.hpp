#pragma once

#include "compiler/placement/stages.hpp"
#include "strata/graph.hpp"

namespace strata::host {

/// If a node reads a value that another chunk recomputes, redirects it to the stashed forward value. The other chunk's
/// backward pass, which would recompute the value, runs later. Then removes nodes that are no longer needed.
void keep_values_between_chunks(Graph& graph, const Stages& stages);

}  // namespace strata::host
