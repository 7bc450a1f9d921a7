#pragma once

#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda {

inline constexpr int kRopeThreads = 256;

/// The rotary angles of the rows of x[rows, 2 · pairs].
template <class V>
struct RotaryAngles {
  /// Maps a row to its position.
  StridedIndex place;
  const std::int32_t* positions = nullptr;
  /// cos[table_rows, pairs] and sin[table_rows, pairs]. A row with a position outside of the table is copied.
  const V* cos = nullptr;
  const V* sin = nullptr;
  std::int64_t table_rows = 0;
  std::int64_t pairs = 0;
  /// 1, or -1 for the opposite angles.
  V direction = 1;
};

/// Each thread rotates kWidth neighbouring pairs. y may alias x.
template <class T, int kWidth>
__global__ void __launch_bounds__(kRopeThreads)
    rotate_pairs(RotaryAngles<Accumulate<T>> angles, std::int64_t rows, const T* x, T* y, bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t index = (std::int64_t{blockIdx.x} * kRopeThreads + threadIdx.x) * kWidth;
  const std::int64_t row = index / angles.pairs;
  if (row >= rows) return;
  const std::int64_t pair = index - row * angles.pairs;
  const std::int64_t position = angles.positions[angles.place(row)];
  const bool turns = position >= 0 && position < angles.table_rows;
  const std::int64_t low = row * 2 * angles.pairs + pair;
  const std::int64_t high = low + angles.pairs;
  V a[kWidth];
  V b[kWidth];
  V c[kWidth];
  V s[kWidth];
  load_run<kWidth>(x + low, a);
  load_run<kWidth>(x + high, b);
  if (turns) {
    load_run<kWidth>(angles.cos + position * angles.pairs + pair, c);
    load_run<kWidth>(angles.sin + position * angles.pairs + pair, s);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const V cosine = turns ? c[i] : V{1};
    const V sine = turns ? angles.direction * s[i] : V{0};
    const V turned = a[i] * cosine - b[i] * sine;
    b[i] = a[i] * sine + b[i] * cosine;
    a[i] = turned;
  }
  if (accumulate) {
    V before[kWidth];
    load_run<kWidth>(y + low, before);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) a[i] += before[i];
    load_run<kWidth>(y + high, before);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) b[i] += before[i];
  }
  store_run<kWidth>(y + low, a);
  store_run<kWidth>(y + high, b);
}

}  // namespace strata::cuda
