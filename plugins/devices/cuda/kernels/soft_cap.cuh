#pragma once

#include <cmath>

#include "language/language.hpp"

namespace strata::cuda {

/// cap · tanh(x / cap)
template <class V>
__device__ __forceinline__ V soft_cap(V x, V cap) {
  return cap * std::tanh(x / cap);
}

/// The derivative of soft_cap() where it is `y`. A `y` below -cap, such as -infinity, counts as -cap.
template <class V>
__device__ __forceinline__ V soft_cap_slope(V y, V cap) {
  const V share = y > -cap ? y / cap : V{-1};
  return 1 - share * share;
}

}  // namespace strata::cuda
