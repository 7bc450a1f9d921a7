#pragma once

#include <cstdint>

namespace strata::cpu {

/// Conversions. A bf16 number is the upper half of a f32 one, kept as its bits.
struct CastKernels {
  /// y = x rounded to the nearest bf16, ties to even; NaN stays NaN
  void (*f32_to_bf16)(std::int64_t size, const float* x, std::uint16_t* y, int threads);
  /// y = x, exactly
  void (*bf16_to_f32)(std::int64_t size, const std::uint16_t* x, float* y, int threads);
};

}  // namespace strata::cpu
