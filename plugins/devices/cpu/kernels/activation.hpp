#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// A pointwise activation function f on flat buffers. An output may be the same buffer as an input.
template <class T>
struct ActivationKernels {
  /// y = f(x)
  void (*forward)(std::int64_t size, const T* x, T* y, int threads);
  /// dx = dy * f'(x), where x is the input of the forward pass; with `accumulate`, dx += dy * f'(x)
  void (*gradient)(std::int64_t size, const T* dy, const T* x, T* dx, bool accumulate, int threads);
  /// y = f(gate) * up
  void (*gated_forward)(std::int64_t size, const T* gate, const T* up, T* y, int threads);
  /// dgate = dy * up * f'(gate), dup = dy * f(gate); with `accumulate`, both are added to
  void (*gated_gradient)(std::int64_t size, const T* dy, const T* gate, const T* up, T* dgate, T* dup, bool accumulate,
                         int threads);
};

/// The kernels of one function, with its name in strata::activation_functions().
struct NamedActivation {
  const char* kind;
  ByElement<ActivationKernels> kernels;
};

/// All functions that have kernels.
struct ActivationTable {
  const NamedActivation* rows;
  std::int64_t count;
};

STRATA_CPU_KERNEL_FAMILY(ActivationTable, activation_kernels);

}  // namespace strata::cpu
