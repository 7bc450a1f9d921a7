#pragma once

#include <cstdint>

#include "language/dialect.hpp"
#include "strata/gpu_kernel.hpp"
#include "strata/random.hpp"

namespace strata::cuda {

/// The random numbers of one op in the current step.
struct RandomStream {
  /// Result of random::stream_base().
  std::uint64_t base = 0;
  const StepValues* step = nullptr;

  /// Same as random::stream_key().
  [[nodiscard]] __device__ __forceinline__ std::uint64_t key() const {
    return random::step_key(base, __ldg(&step->step));
  }
};

}  // namespace strata::cuda
