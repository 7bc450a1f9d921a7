#pragma once

#include <cstdint>

namespace strata::cpu {

enum class ActivationKind { gelu_tanh, relu, silu };

/// Pointwise nonlinearities on flat buffers. Outputs may be the same buffer as an input.
template <class T>
struct ActivationKernels {
  /// y = f(x)
  void (*forward)(ActivationKind kind, std::int64_t size, const T* x, T* y, int threads);
  /// dx = dy * f'(x), where x is what the activation was given; with `accumulate`, dx += that
  void (*gradient)(ActivationKind kind, std::int64_t size, const T* dy, const T* x, T* dx, bool accumulate,
                   int threads);
};

}  // namespace strata::cpu
