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

__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }

/// Returns `value`, which must not be negative, and hides its origin from the compiler. Expressions of the result are
/// then recomputed in each iteration of a loop. Otherwise the compiler would hoist them and hold them in registers, of
/// which the loop has none left.
__device__ __forceinline__ int recomputed(int value) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(value));
  __builtin_assume(value >= 0);
#endif
  return value;
}

}  // namespace strata::cuda
