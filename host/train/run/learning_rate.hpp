#pragma once

#include <cstdint>
#include <string>

namespace strata::host {

/// The learning rate as a function of the step.
struct LearningRateSchedule {
  enum class Kind : std::uint8_t {
    constant,
    warmup,        ///< from min_lr to lr over `warmup` steps, then constant (DeepSpeed's WarmupLR)
    warmup_cosine  ///< from 0 to lr over `warmup` steps, then half a cosine down to min_lr
  };
  enum class Warmup : std::uint8_t { linear, logarithmic };

  Kind kind = Kind::constant;
  Warmup warmup_type = Warmup::linear;
  double lr = 1e-3;
  double min_lr = 0;
  /// Number of warm-up steps.
  std::int64_t warmup = 0;
  /// Number of steps of the whole run. Only warmup_cosine uses it.
  std::int64_t steps = 0;

  /// Learning rate of step `step`, counted from 0.
  [[nodiscard]] double operator()(std::uint64_t step) const;
};

}  // namespace strata::host
