#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph.hpp"

namespace strata::host {

/// Memory for parameters, gradients and optimizer states alone, as DeepSpeed's estimators count it: per parameter, 2
/// bytes for the value, 2 for the gradient, and 16 for Adam in f32.
struct ParameterEstimate {
  struct Row {
    std::string name;
    /// How the bytes come about, of P parameters, N devices and L parameters of the largest layer.
    std::string formula;
    double bytes = 0;
  };

  std::int64_t parameters = 0;
  /// Of the module with the most: a matrix and its bias.
  std::int64_t largest_layer = 0;
  std::vector<Row> rows;
};

/// The estimate for one of `devices` that share the states.
[[nodiscard]] ParameterEstimate estimate_parameters(const Graph& graph, int devices);

}  // namespace strata::host
