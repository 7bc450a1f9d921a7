#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Layer normalisation of x[rows, columns] over its columns: y = (x - mean) * inverse_std * gain + bias.
/// Statistics, gain, bias and their gradients are f32.
template <class T>
struct LayerNormKernels {
  /// y[rows, columns], mean[rows], inverse_std[rows]
  void (*forward)(std::int64_t rows, std::int64_t columns, float epsilon, const T* x, const float* gain,
                  const float* bias, T* y, float* mean, float* inverse_std, int threads);
  /// dx[rows, columns]; with `accumulate`, dx += the gradient
  void (*input_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* gain,
                         const float* mean, const float* inverse_std, T* dx, bool accumulate, int threads);
  /// dgain[columns], dbias[columns]. Each may be null, and each has its own `accumulate`.
  void (*parameter_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* mean,
                             const float* inverse_std, float* dgain, bool accumulate_gain, float* dbias,
                             bool accumulate_bias, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<LayerNormKernels>, layer_norm_kernels);

}  // namespace strata::cpu
