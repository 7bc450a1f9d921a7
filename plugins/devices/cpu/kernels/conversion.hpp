#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Converts elements from one type to another, rounding to the nearest, ties to even. NaN stays NaN.
struct ConversionKernels {
  /// y = x
  void (*convert)(std::int64_t size, Element from, const void* x, Element to, void* y, int threads);
  /// y += x
  void (*accumulate)(std::int64_t size, Element from, const void* x, Element to, void* y, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ConversionKernels, conversion_kernels);

}  // namespace strata::cpu
