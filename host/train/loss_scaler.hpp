#pragma once

#include <optional>

#include "checkpoint/checkpoint_manifest.hpp"
#include "strata/graph.hpp"

namespace strata::host {

struct Compiled;

/// Chooses the loss scale of every step (Micikevicius et al., "Mixed Precision Training", ICLR 2018). Every rank has
/// one. All ranks pass the same gradient norms, so all choose the same scale.
class LossScaler {
 public:
  /// `tokens`: number of losses that a step sums. Empty settings disable scaling and skipping.
  LossScaler(const std::optional<LossScaling>& settings, double tokens);
  /// Takes settings and token count from a compiled training step.
  explicit LossScaler(const Compiled& training);

  [[nodiscard]] bool is_active() const { return settings_.has_value(); }
  [[nodiscard]] const LossScalerState& state() const { return state_; }
  /// Continues from the state of another run. A static scale keeps the value of the settings.
  void restore(const LossScalerState& state);

  /// Factor of the gradients of the summed loss: the scale divided by the number of tokens, which is rounded to a power
  /// of two. If the scale is a power of two as well, scaling is exact.
  [[nodiscard]] double factor() const { return state_.scale / tokens_; }

  /// Records the gradient norm of a step. \return true if the step was skipped because the norm is not finite. \throws
  /// RuntimeError if a smaller scale cannot help.
  bool skips(double gradient_norm);
  /// Records that a rule left out the update of a step, so that optimizers do not count it.
  void leave_out_step() { ++state_.skipped_steps; }

 private:
  void count_good_step();
  void back_off();

  std::optional<LossScaling> settings_;
  double tokens_ = 1;
  LossScalerState state_;
  int skipped_in_a_row_ = 0;
};

}  // namespace strata::host
