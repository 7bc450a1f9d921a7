#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Sums. The division into partial sums depends on the shape only, so results do not depend on the number of threads.
template <class T>
struct ReduceKernels {
  /// y[present dims...] = x[sizes...] summed over the dims that are not present; with `accumulate`, y += that sum
  void (*sum)(const BroadcastShape& shape, const T* x, float* y, bool accumulate, int threads);
  /// The sum of x[i]^2, in f64
  double (*sum_of_squares)(std::int64_t size, const T* x, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<ReduceKernels>, reduce_kernels);

}  // namespace strata::cpu
