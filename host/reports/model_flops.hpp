#pragma once

#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// Floating-point operations of the model's matrix products in one pass of a training graph, forward and backward, as
/// the model FLOPs utilisation counts them (Chowdhery et al., "PaLM", 2022, appendix B). A product costs twice as much
/// in the backward pass as in the forward pass, or as much if only one of its factors needs a gradient. Work that a
/// strategy or a kernel repeats, such as recomputation, does not count. Unlike there, masked keys of attention do not
/// count either.
[[nodiscard]] double model_flops(const Graph& graph, const OpRegistry& registry);

/// The type of the factors in which most of those operations are done.
[[nodiscard]] DType product_type(const Graph& graph, const OpRegistry& registry);

}  // namespace strata::host
