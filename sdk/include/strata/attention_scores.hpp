#pragma once

#include <cmath>

#include "strata/kernel.hpp"

namespace strata {

/// How attention makes scores of the products of queries and keys: scale · product, bent so that no score is beyond
/// ± cap (Gemma Team, "Gemma 2", 2024).
struct AttentionScores {
  double scale = 1;
  /// 0: no cap.
  double cap = 0;

  /// The score of a product.
  [[nodiscard]] double of(double product) const {
    return cap > 0 ? cap * std::tanh(scale * product / cap) : scale * product;
  }
  /// The derivative of a score by scale · product.
  [[nodiscard]] double slope(double score) const { return cap > 0 ? 1 - score / cap * (score / cap) : 1; }
};

/// The scores of an instance of `attention`, `attention_gradient` or `cached_attention`, whose first operand are the
/// queries: by the attributes `scale`, without which it is 1 / √head_dim, and `cap`.
[[nodiscard]] inline AttentionScores attention_scores(const OpInstance& op) {
  const auto head_dim = static_cast<double>(op.operands[0].shape.back());
  return {op.attributes.has("scale") ? op.attributes.number("scale") : 1 / std::sqrt(head_dim),
          op.attributes.has("cap") ? op.attributes.number("cap") : 0};
}

}  // namespace strata
