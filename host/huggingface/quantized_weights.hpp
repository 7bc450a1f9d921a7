#pragma once

#include <map>
#include <string>

#include "strata/graph.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::host {

/// A parameter of the model that a strategy stores as codes and scales.
struct QuantizedWeight {
  /// Names of the two parameters.
  std::string codes;
  std::string scales;
  /// The value that dequantizes them.
  Value dequantized;
  BlockedWeight shape;
};

/// The quantized weights of a forward graph by the name of the parameter that the model has without the strategy.
[[nodiscard]] std::map<std::string, QuantizedWeight> quantized_weights(const Graph& graph);

}  // namespace strata::host
