#pragma once

#include <optional>

#include "strata/graph.hpp"
#include "strata/op.hpp"

namespace precision {

/// Gives the f32 values of a forward graph the types of a run of mixed precision, by what every op declares of its
/// operands (strata::OperandPrecision), with casts in between. Parameters that no op needs in f32 are stored in
/// `compute`, and their gradients are added up and reduced in `reduce` (empty: f32). What leaves the graph keeps its
/// type.
void mix_types(strata::Graph& graph, const strata::OpRegistry& registry, strata::DType compute,
               std::optional<strata::DType> reduce);

}  // namespace precision
