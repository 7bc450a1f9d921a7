#pragma once

#include <cstdint>

#include "runtime/executor.hpp"

namespace strata::host {

/// A disturbance of initial parameters, which shows how much a run amplifies rounding.
struct Disturbance {
  /// Each value is multiplied by 1 - unit or 1 + unit. 0: no disturbance.
  double unit = 0;
  /// Chooses between the two, for each element by itself.
  std::uint64_t seed = 0;
};

/// Disturbs the initial parameters of a rank, and the states that begin as their values. Constants stay.
void disturb_parameters(Executor& executor, const Disturbance& disturbance);

}  // namespace strata::host
