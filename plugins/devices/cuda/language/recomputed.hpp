#pragma once

#include "language/dialect.hpp"

namespace strata::cuda {

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
