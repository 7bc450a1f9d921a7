#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/graph.hpp"

namespace lora {

/// One node that reads a parameter, directly or through a cast.
struct ParameterUse {
  int node = -1;
  int operand = 0;
};

/// The two sides of a parameter that products read as a matrix.
struct MatrixSides {
  strata::Dims contracted;
  strata::Dims outputs;

  bool operator==(const MatrixSides&) const = default;
};

/// The nodes of a forward graph that read each parameter. The graph outlives it.
class ParameterUses {
 public:
  explicit ParameterUses(const strata::Graph& graph);

  [[nodiscard]] const std::vector<ParameterUse>& of(const strata::Parameter& parameter) const;
  /// True if only matrix products read the parameter.
  [[nodiscard]] bool is_matrix_of_products(const strata::Parameter& parameter) const;
  /// The sides of a parameter that only products and lookups read. Else empty, and `reason` says why.
  [[nodiscard]] std::optional<MatrixSides> sides(const strata::Parameter& parameter, std::string& reason) const;

 private:
  [[nodiscard]] std::optional<MatrixSides> sides(const strata::Dims& dims, const ParameterUse& use,
                                                 std::string& reason) const;

  const strata::Graph& graph_;
  std::map<int, std::vector<ParameterUse>> uses_;  // by the parameter's node
};

}  // namespace lora
