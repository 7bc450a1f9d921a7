#pragma once

#include <map>

#include "strata/graph.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Describes the parameters of a graph to plugins. The graph outlives it.
class ParameterDescriptions {
 public:
  explicit ParameterDescriptions(const Graph& graph);

  [[nodiscard]] ParameterDescription operator()(const Parameter& parameter) const;

 private:
  const Graph& graph_;
  std::map<Value, int> first_block_;
};

}  // namespace strata::host
