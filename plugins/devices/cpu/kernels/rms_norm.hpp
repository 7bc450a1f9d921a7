#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Root-mean-square normalisation of x[rows, columns] over its columns: y = x * inverse_rms * gain. Statistics, gain
/// and its gradient are f32.
template <class T>
struct RmsNormKernels {
  /// y[rows, columns], inverse_rms[rows]
  void (*forward)(std::int64_t rows, std::int64_t columns, float epsilon, const T* x, const float* gain, T* y,
                  float* inverse_rms, int threads);
  /// dx[rows, columns]; with `accumulate`, dx += the gradient
  void (*input_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* gain,
                         const float* inverse_rms, T* dx, bool accumulate, int threads);
  /// dgain[columns]; with `accumulate`, dgain += the gradient
  void (*parameter_gradient)(std::int64_t rows, std::int64_t columns, const T* dy, const T* x, const float* inverse_rms,
                             float* dgain, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<RmsNormKernels>, rms_norm_kernels);

}  // namespace strata::cpu
