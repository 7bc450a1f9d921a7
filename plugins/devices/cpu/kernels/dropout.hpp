#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/index_map.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Selects the dropped elements: Philox4x32-10, keyed by `stream_key` and indexed by the element's global flat index.
struct DropoutSettings {
  double probability = 0.0;
  std::uint64_t stream_key = 0;
};

template <class T>
struct DropoutKernels {
  /// y = keep ? x / (1 - probability) : 0, for x[dims...]. The gradient is the same function of dy.
  void (*forward)(const DropoutSettings& settings, const IndexedDim* dims, int count, const T* x, T* y, bool accumulate,
                  int threads);
  /// Fused: y = residual + dropout(x + bias), where bias has the innermost dim. `bias` and `residual` may be null.
  void (*bias_add)(const DropoutSettings& settings, const IndexedDim* dims, int count, const T* x, const T* bias,
                   const T* residual, T* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<DropoutKernels>, dropout_kernels);

}  // namespace strata::cpu
