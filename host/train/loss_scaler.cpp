#include "train/loss_scaler.hpp"

#include <cmath>
#include <string>

#include "compiler/compile.hpp"
#include "files/text_format.hpp"
#include "reports/program_summary.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// At this scale gradients are no larger than without scaling, so an overflow must have another cause.
constexpr double kSmallestScale = 1;
/// Limit of consecutive skipped steps with a static scale. Beyond it the run fails.
constexpr int kMostSkippedInARow = 10;

/// Number of losses that a step sums.
double loss_count(const Compiled& training) {
  return static_cast<double>(loss_elements(training.graph)) * training.programs.front().micro_batches;
}

}  // namespace

LossScaler::LossScaler(const std::optional<LossScaling>& settings, double tokens) : settings_(settings) {
  if (!settings) return;
  tokens_ = std::exp2(std::round(std::log2(tokens)));
  state_.scale = settings->initial;
}

LossScaler::LossScaler(const Compiled& training) : LossScaler(training.graph.loss_scaling, loss_count(training)) {}

void LossScaler::restore(const LossScalerState& state) {
  state_.skipped_steps = state.skipped_steps;
  if (!settings_ || !settings_->dynamic) return;
  state_ = state;
}

bool LossScaler::skips(double gradient_norm) {
  if (!settings_) return false;
  if (std::isfinite(gradient_norm)) {
    count_good_step();
    return false;
  }
  ++state_.skipped_steps;
  ++skipped_in_a_row_;
  state_.good_steps = 0;
  back_off();
  return true;
}

void LossScaler::count_good_step() {
  skipped_in_a_row_ = 0;
  if (!settings_->dynamic || ++state_.good_steps < settings_->interval) return;
  state_.good_steps = 0;
  const double grown = state_.scale * settings_->growth;
  if (std::isfinite(grown)) state_.scale = grown;
}

void LossScaler::back_off() {
  const std::string found = format_line("the gradient is not finite at a loss scale of %g", state_.scale);
  if (!settings_->dynamic) {
    if (skipped_in_a_row_ < kMostSkippedInARow) return;
    throw RuntimeError(found + ", in " + std::to_string(skipped_in_a_row_) +
                       " steps in a row; a smaller scale, a dynamic one or a lower learning rate may help");
  }
  const double smaller = state_.scale * settings_->backoff;
  if (smaller < kSmallestScale) {
    throw RuntimeError(found + ", the smallest that is tried; a lower learning rate, clipping or bf16 may help");
  }
  state_.scale = smaller;
}

}  // namespace strata::host
