#pragma once

#include <string>

#include "strata/graph.hpp"

namespace rotary {

/// The cosine and sine of every angle, [seq head_pair].
struct Tables {
  strata::Value cos;
  strata::Value sin;
};

/// Adds the tables to a model that has defined "seq" and "head_dim"; defines "head_pair". Position p and pair i have
/// the angle p · base^(-2i / head_dim). A model has one base.
[[nodiscard]] Tables rotary_tables(strata::GraphBuilder& builder, double base);

/// Rotates x [batch seq heads head_dim].
[[nodiscard]] strata::Value rotate(strata::GraphBuilder& builder, strata::Value x, const Tables& tables,
                                   const std::string& name);

}  // namespace rotary
