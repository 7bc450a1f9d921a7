#pragma once

#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/internal/weight_blocks.hpp"
#include "strata/op.hpp"

namespace lora {

/// True for a node that dequantizes a quantized parameter.
[[nodiscard]] bool is_dequantization(const strata::Node& node);

/// Replaces each of the `names`d parameters by two, its codes and its scales, and by a node that dequantizes them in
/// every block that reads it. The blocks lie along the dimension that most parameters have, such as "embed", because
/// strategies shard the others.
void quantize_parameters(strata::Graph& graph, const strata::OpRegistry& registry,
                         const std::vector<std::string>& names, const strata::WeightBlocks& blocks);

/// Makes the backward pass dequantize parameters again, so that no dequantized parameter is kept for it.
void dequantize_again(strata::Graph& graph);

}  // namespace lora
