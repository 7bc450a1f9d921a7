#pragma once

#include <optional>

#include "strata/strategy.hpp"

namespace precision {

/// The plugin's options.
struct Settings {
  strata::DType compute = strata::DType::bf16;
  /// Type in which gradients are accumulated and reduced. Empty: f32.
  std::optional<strata::DType> reduce;
  std::optional<strata::LossScaling> loss_scaling;
};

/// Mixed precision (Micikevicius et al., "Mixed Precision Training", ICLR 2018). Matrix products, attention and
/// activations use a short type. Normalisation, loss, sums of gradients and the optimizer use f32.
class MixedPrecision final : public strata::Strategy {
 public:
  explicit MixedPrecision(const Settings& settings) : settings_(settings) {}

  /// Assigns types. In an f64 graph it only sets up loss scaling.
  void rewrite_forward(strata::Graph& graph, const strata::OpRegistry& registry) const override;

 private:
  Settings settings_;
};

}  // namespace precision
