#pragma once

#include <cstdint>

#include "kernels/element.hpp"

namespace strata::cpu {

/// From one type of elements to another; rounded to the nearest, ties to even, where that is shorter. NaN stays NaN.
struct ConversionKernels {
  /// y = x
  void (*convert)(std::int64_t size, Element from, const void* x, Element to, void* y, int threads);
  /// y += x
  void (*accumulate)(std::int64_t size, Element from, const void* x, Element to, void* y, int threads);
};

}  // namespace strata::cpu
