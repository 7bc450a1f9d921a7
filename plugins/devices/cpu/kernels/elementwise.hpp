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
  /// y = inputs[0] + inputs[1] + ..., in this order; with `accumulate`, y += that sum
  void (*sum)(std::int64_t size, const T* const* inputs, int count, T* y, bool accumulate, int threads);
  /// y = factor * x
  void (*scale)(std::int64_t size, float factor, const T* x, T* y, int threads);
  /// y[sizes...] = x[sizes...] / (√squares[present dims...] + epsilon)
  void (*normalize)(const BroadcastShape& shape, float epsilon, const T* x, const float* squares, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<ElementwiseKernels>, elementwise_kernels);

}  // namespace strata::cpu
