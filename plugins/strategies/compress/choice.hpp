#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

/// \file
/// The choice of the largest elements of a piece, for kernels of any precision.

namespace compress {

/// Writes the indices of the `chosen` elements with the largest magnitudes to `indices`, in ascending order. Of equal
/// magnitudes the first ones are chosen, and NaN before all. `order` has room for `count` indices.
template <class Read>
void choose_largest(const Read& values, std::int64_t count, std::int64_t chosen, std::int32_t* order,
                    std::int32_t* indices) {
  const auto magnitude = [&](std::int32_t i) {
    const auto value = std::abs(values[i]);
    return std::isnan(value) ? std::numeric_limits<decltype(value)>::infinity() : value;
  };
  for (std::int64_t i = 0; i < count; ++i) order[i] = static_cast<std::int32_t>(i);
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    const auto of_a = magnitude(a);
    const auto of_b = magnitude(b);
    return of_a > of_b || (of_a == of_b && a < b);
  };
  std::nth_element(order, order + chosen - 1, order + count, is_before);
  std::copy_n(order, chosen, indices);
  std::sort(indices, indices + chosen);
}

}  // namespace compress
