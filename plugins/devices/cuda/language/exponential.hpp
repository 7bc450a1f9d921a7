#pragma once

#include "language/dialect.hpp"

namespace strata::cuda {

/// 2^exponent by the special function unit. The relative error is at most 2^-22. Subnormal results become 0.
__device__ __forceinline__ float fast_exp2(float exponent) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
#else
  return emulator::approximate_exp2(exponent);
#endif
}

__device__ __forceinline__ double fast_exp2(double exponent) { return exp2(exponent); }

}  // namespace strata::cuda
