#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Products of flat buffers. A result may be the same buffer as an operand.
template <class T>
struct ProductKernels {
  /// z = x * y; with `accumulate`, z += x * y
  void (*multiply)(std::int64_t size, const T* x, const T* y, T* z, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<ProductKernels>, product_kernels);

/// An activation function f as a gate, on flat buffers. A result may be the same buffer as an operand.
template <class T>
struct GateKernels {
  /// y = f(gate) * up
  void (*forward)(std::int64_t size, const T* gate, const T* up, T* y, int threads);
  /// dgate = dy * up * f'(gate), dup = dy * f(gate); with `accumulate`, both are added to
  void (*gradient)(std::int64_t size, const T* dy, const T* gate, const T* up, T* dgate, T* dup, bool accumulate,
                   int threads);
};

/// The kernels of one function, with its name in strata::activation_functions().
struct NamedGate {
  const char* kind;
  ByElement<GateKernels> kernels;
};

/// All functions that have kernels.
struct GateTable {
  const NamedGate* rows;
  std::int64_t count;
};

STRATA_CPU_KERNEL_FAMILY(GateTable, gate_kernels);

}  // namespace strata::cpu
