#pragma once

#include <cstdint>

namespace strata::plugins {

/// A sum of products in lanes, so that the compiler can use vectors.
template <class T>
T dot(const T* a, const T* b, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  T sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const T lane : lanes) sum += lane;
  return sum;
}

}  // namespace strata::plugins
