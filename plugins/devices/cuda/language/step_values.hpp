#pragma once

#include <cstdint>

#include "language/dialect.hpp"
#include "strata/random.hpp"

namespace strata::cuda {

/// What kernels need to know of the step. They read it in device memory, so that a launch that was captured at one step
/// is the same at any other.
struct StepValues {
  std::uint64_t step = 0;
  /// How many updates have changed something, with this step's.
  double updates = 1;
  double learning_rate = 0;
  double loss_scale = 1;

  bool operator==(const StepValues&) const = default;
};

/// The random numbers that one op draws at the step.
struct RandomStream {
  /// random::stream_base()
  std::uint64_t base = 0;
  const StepValues* step = nullptr;

  /// random::stream_key()
  [[nodiscard]] __device__ __forceinline__ std::uint64_t key() const {
    return random::step_key(base, __ldg(&step->step));
  }
};

}  // namespace strata::cuda
