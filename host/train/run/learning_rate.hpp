#pragma once

#include <cstdint>
#include <string>

namespace strata::host {

/// The learning rate as a function of the step.
struct LearningRateSchedule {
  enum class Kind : std::uint8_t {
    constant,
    warmup,        ///< min_lr to lr over `warmup` steps, then constant (DeepSpeed's WarmupLR)
    warmup_cosine  ///< 0 to lr over `warmup` steps, then half a cosine that ends in min_lr after the last
  };
  enum class Warmup : std::uint8_t { linear, logarithmic };

  Kind kind = Kind::constant;
  Warmup warmup_type = Warmup::linear;
  double lr = 1e-3;
  double min_lr = 0;
  /// Steps of warming up.
  std::int64_t warmup = 0;
  /// Steps of the whole run; only the cosine knows them.
  std::int64_t steps = 0;

  /// The rate of step `step`, counted from 0.
  [[nodiscard]] double operator()(std::uint64_t step) const;
};

}  // namespace strata::host
