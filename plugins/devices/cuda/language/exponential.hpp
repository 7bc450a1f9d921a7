#pragma once

#include "language/dialect.hpp"

namespace strata::cuda {

/// 2^exponent by the special function unit: two units in the last place, and 0 where that is subnormal.
__device__ __forceinline__ float fast_exp2(float exponent) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
#else
  return exp2f(exponent);
#endif
}

__device__ __forceinline__ double fast_exp2(double exponent) { return exp2(exponent); }

}  // namespace strata::cuda
