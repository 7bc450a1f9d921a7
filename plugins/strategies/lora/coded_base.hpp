#pragma once

#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/weight_blocks.hpp"

namespace lora {

/// True for a node that decodes a coded parameter.
[[nodiscard]] bool is_decoding(const strata::Node& node);

/// Replaces each of the `names`d parameters by two, its codes and its scales, and by a node that decodes them in every
/// block that reads it. The blocks lie along the dimension that most parameters have, such as "embed", because
/// strategies shard the others.
void code_parameters(strata::Graph& graph, const strata::OpRegistry& registry, const std::vector<std::string>& names,
                     const strata::WeightBlocks& blocks);

/// Makes the backward pass decode parameters again, so that no decoded parameter is kept for it.
void decode_again(strata::Graph& graph);

}  // namespace lora
