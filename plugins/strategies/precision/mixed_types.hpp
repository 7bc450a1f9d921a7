#pragma once

#include <optional>

#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace precision {

/// Assigns the types of mixed precision to the f32 values of a forward graph, as each op declares for its operands
/// (strata::OperandPrecision), and inserts casts. Parameters that no op needs in f32 are stored in `compute`. Their
/// gradients are accumulated and reduced in `reduce` (empty: f32). Values that leave the graph keep their type.
void mix_types(strata::Graph& graph, const strata::OpRegistry& registry, strata::DType compute,
               std::optional<strata::DType> reduce);

}  // namespace precision
