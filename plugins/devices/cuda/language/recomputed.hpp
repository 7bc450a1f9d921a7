#pragma once

#include "language/dialect.hpp"

namespace strata::cuda {

/// The value, which is not negative and of which the compiler no longer knows where it is from: what is computed of it
/// in a loop is computed anew each time, where it would otherwise stay in registers that the loop has no room for.
__device__ __forceinline__ int recomputed(int value) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(value));
  __builtin_assume(value >= 0);
#endif
  return value;
}

}  // namespace strata::cuda
