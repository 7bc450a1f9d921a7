#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"
#include "shared/broadcast_shape.hpp"

namespace strata::cpu {

using devices::BroadcastShape;

/// Arithmetic on flat buffers of `size` elements. An output may be the same buffer as an input.
template <class T>
struct ElementwiseKernels {
  /// z = x + y
  void (*add)(std::int64_t size, const T* x, const T* y, T* z, int threads);
  /// z[sizes...] = x[sizes...] + y[present dims...]
  void (*add_broadcast)(const BroadcastShape& shape, const T* x, const T* y, T* z, int threads);
  /// z = x * y; with `accumulate`, z += x * y
  void (*multiply)(std::int64_t size, const T* x, const T* y, T* z, bool accumulate, int threads);
  /// y = inputs[0] + inputs[1] + ..., in this order; with `accumulate`, y += that sum
  void (*sum)(std::int64_t size, const T* const* inputs, int count, T* y, bool accumulate, int threads);
  /// y = factor * x
  void (*scale)(std::int64_t size, float factor, const T* x, T* y, int threads);
  /// y[sizes...] = x[sizes...] / (√squares[present dims...] + epsilon)
  void (*normalize)(const BroadcastShape& shape, float epsilon, const T* x, const float* squares, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<ElementwiseKernels>, elementwise_kernels);

/// Sums. The division into partial sums depends on the shape only, so results do not depend on the number of threads.
template <class T>
struct ReduceKernels {
  /// y[present dims...] = x[sizes...] summed over the dims that are not present; with `accumulate`, y += that sum
  void (*sum)(const BroadcastShape& shape, const T* x, float* y, bool accumulate, int threads);
  /// The sum of x[i]^2, in f64
  double (*sum_of_squares)(std::int64_t size, const T* x, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<ReduceKernels>, reduce_kernels);

/// Converts elements from one type to another, rounding to the nearest, ties to even. NaN stays NaN.
struct ConversionKernels {
  /// y = x; with `accumulate`, y += x
  void (*convert)(std::int64_t size, Element from, const void* x, Element to, void* y, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ConversionKernels, conversion_kernels);

}  // namespace strata::cpu
