#pragma once

#include <cstdint>

#include "shared/broadcast_shape.hpp"

namespace strata::cpu {

using devices::BroadcastShape;

/// Plain arithmetic on flat buffers of `size` elements. Outputs may be the same buffer as an input.
template <class T>
struct ElementwiseKernels {
  /// z = x + y
  void (*add)(std::int64_t size, const T* x, const T* y, T* z, int threads);
  /// z[sizes...] = x[sizes...] + y[present dims...]
  void (*add_broadcast)(const BroadcastShape& shape, const T* x, const T* y, T* z, int threads);
  /// y = inputs[0] + inputs[1] + ..., added in this order; with `accumulate`, y += that sum
  void (*sum)(std::int64_t size, const T* const* inputs, int count, T* y, bool accumulate, int threads);
  /// y = factor * x
  void (*scale)(std::int64_t size, float factor, const T* x, T* y, int threads);
};

}  // namespace strata::cpu
