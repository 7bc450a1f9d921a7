#pragma once

#include <cstdint>

#include "kernels/elementwise.hpp"

namespace strata::cpu {

/// Sums. Work is cut into pieces that depend on the shape alone, so results are the same for any thread count.
template <class T>
struct ReduceKernels {
  /// y[present dims...] = x[sizes...] summed over the dims that are not present; with `accumulate`, y += that
  void (*sum)(const BroadcastShape& shape, const T* x, float* y, bool accumulate, int threads);
  /// The sum of x[i]^2, in f64
  double (*sum_of_squares)(std::int64_t size, const T* x, int threads);
};

}  // namespace strata::cpu
