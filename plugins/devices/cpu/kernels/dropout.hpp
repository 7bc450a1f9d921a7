#pragma once

#include <cstdint>

#include "kernels/index_map.hpp"

namespace strata::cpu {

/// Which elements are dropped: Philox4x32-10 keyed by `stream_key`, indexed by the global flat index of the element.
struct DropoutSettings {
  double probability = 0.0;
  std::uint64_t stream_key = 0;
};

template <class T>
struct DropoutKernels {
  /// y = keep ? x / (1 - probability) : 0 for x[dims...]; its gradient is the same function of dy
  void (*forward)(const DropoutSettings& settings, const IndexedDim* dims, int count, const T* x, T* y, bool accumulate,
                  int threads);
  /// Fused: y = residual + dropout(x + bias), where the innermost dim is bias's. `bias` may be null; so may `residual`.
  void (*bias_add)(const DropoutSettings& settings, const IndexedDim* dims, int count, const T* x, const T* bias,
                   const T* residual, T* y, int threads);
};

}  // namespace strata::cpu
