#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Layer norm of x[rows, columns] over its columns, y = (x - mean) * inverse * gain + bias, where `inverse` is that of
/// the standard deviation; or RMS norm, y = x * inverse * gain, where it is that of the root of the mean square.
/// Statistics, parameters and their gradients are f32. `bias`, `mean` and `dbias` are null in RMS norm.
template <class T>
struct NormKernels {
  /// y[rows, columns], mean[rows], inverse[rows]
  void (*forward)(std::int64_t rows, std::int64_t columns, float epsilon, const T* x, const float* gain,
                  const float* bias, T* y, float* mean, float* inverse, int threads);
  /// dx[rows, columns]; with `accumulate`, dx += the gradient
  void (*input_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* gain,
                         const float* mean, const float* inverse, T* dx, bool accumulate, int threads);
  /// dgain[columns], dbias[columns]; with `accumulate`, the gradients are added to them
  void (*parameter_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* mean,
                             const float* inverse, float* dgain, float* dbias, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<NormKernels>, layer_norm_kernels);
STRATA_CPU_KERNEL_FAMILY(ByElement<NormKernels>, rms_norm_kernels);

}  // namespace strata::cpu
