#pragma once

#include <cstdint>
#include <optional>

#include "strata/graph.hpp"

namespace strata::host {

struct Compiled;

/// What a loss scaler has come to; part of a checkpoint.
struct LossScalerState {
  /// Of the mean loss.
  double scale = 1;
  /// Good steps since the scale changed last.
  int good_steps = 0;
  /// Since the beginning of the run.
  std::uint64_t skipped_steps = 0;

  bool operator==(const LossScalerState&) const = default;
};

/// Chooses the loss scale of every step (Micikevicius et al., "Mixed Precision Training", ICLR 2018). Every rank has
/// one and feeds it the same gradient norms, so all agree.
class LossScaler {
 public:
  /// `tokens`: how many losses a step sums up. Without settings nothing is scaled, and nothing skipped.
  LossScaler(const std::optional<LossScaling>& settings, double tokens);
  /// For a training step.
  explicit LossScaler(const Compiled& training);

  [[nodiscard]] bool is_active() const { return settings_.has_value(); }
  [[nodiscard]] const LossScalerState& state() const { return state_; }
  /// Goes on from where another run was; a static scale stays what the settings say.
  void restore(const LossScalerState& state);

  /// What gradients of the summed loss are multiplied by: the scale over the tokens, as a power of two where the scale
  /// is one, so that scaling loses no digit.
  [[nodiscard]] double factor() const { return state_.scale / tokens_; }

  /// Takes note of how a step ended. \return true if it was skipped because its gradient norm is not finite. \throws
  /// RuntimeError where a smaller scale would be no help.
  bool skips(double gradient_norm);

 private:
  void count_good_step();
  void back_off();

  std::optional<LossScaling> settings_;
  double tokens_ = 1;
  LossScalerState state_;
  int skipped_in_a_row_ = 0;
};

}  // namespace strata::host
