#pragma once

#include <cstdint>

namespace strata::cpu {

enum class ActivationKind { gelu_tanh, relu, silu };

/// Pointwise nonlinearities on flat buffers. Outputs may be the same buffer as an input.
struct ActivationKernels {
  /// y = f(x)
  void (*forward)(ActivationKind kind, std::int64_t size, const float* x, float* y, int threads);
  /// dx = dy * f'(x), where x is what the activation was given; with `accumulate`, dx += that
  void (*gradient)(ActivationKind kind, std::int64_t size, const float* dy, const float* x, float* dx, bool accumulate,
                   int threads);
  /// Fused bias and activation on rows: z[rows, columns] = x + bias[columns], y = f(z)
  void (*bias_forward)(ActivationKind kind, std::int64_t rows, std::int64_t columns, const float* x, const float* bias,
                       float* z, float* y, int threads);
};

}  // namespace strata::cpu
