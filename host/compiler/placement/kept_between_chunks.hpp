#pragma once

#include "compiler/placement/stages.hpp"
#include "strata/graph.hpp"

namespace strata::host {

/// Lets work of one chunk that would read what another chunk recomputes read the forward value instead: it came with
/// the forward pass, and the other chunk's backward pass, which would recompute it, comes later. What is then not
/// needed any more is dropped.
void keep_values_between_chunks(Graph& graph, const Stages& stages);

}  // namespace strata::host
