#pragma once

#include <map>

#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Describes the parameters of a graph to plugins. The graph outlives it.
class ParameterDescriptions {
 public:
  ParameterDescriptions(const Graph& graph, const OpRegistry& registry);

  [[nodiscard]] ParameterDescription operator()(const Parameter& parameter) const;

 private:
  const Graph& graph_;
  std::map<Value, int> first_block_;
  /// Dims over which the first product with a value sums.
  std::map<Value, Dims> contracted_;
};

}  // namespace strata::host
