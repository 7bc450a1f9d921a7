#pragma once

#include <optional>

#include "strata/strategy.hpp"

namespace precision {

/// What the options say.
struct Settings {
  strata::DType compute = strata::DType::bf16;
  /// Empty: f32.
  std::optional<strata::DType> reduce;
  std::optional<strata::LossScaling> loss_scaling;
};

/// Mixed precision (Micikevicius et al., "Mixed Precision Training", ICLR 2018): matrix products, attention and
/// activations in a short type, normalisation, loss, gradients' sums and the optimizer in f32.
class MixedPrecision final : public strata::Strategy {
 public:
  explicit MixedPrecision(const Settings& settings) : settings_(settings) {}

  /// Leaves a graph in f64 in f64, but for the scaling of the loss.
  void rewrite_forward(strata::Graph& graph, const strata::OpRegistry& registry) const override;

 private:
  Settings settings_;
};

}  // namespace precision
