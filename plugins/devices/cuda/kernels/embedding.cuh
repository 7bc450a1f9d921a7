#pragma once

#include "kernels/element_run.cuh"
#include "language/index_map.hpp"

namespace strata::cuda {

/// Lanes per row of the table, and rows per block.
inline constexpr int kEmbeddingLanes = kWarpSize;
inline constexpr int kEmbeddingRows = 8;

/// y[i] = table[ids[i]], or zeros if the id is negative or in another shard. A warp copies a row.
template <class T, int kWidth>
__global__ void __launch_bounds__(kEmbeddingLanes* kEmbeddingRows)
    embedding(std::int64_t count, int columns, DimIndexMap table_rows, const T* table, const std::int32_t* ids, T* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kEmbeddingRows + threadIdx.y;
  if (i >= count) return;
  const std::int64_t row = table_rows.local_index(ids[i]);
  T* to = y + i * columns;
  const auto each_run = [&](const auto& copy) {
    for (int column = static_cast<int>(threadIdx.x) * kWidth; column < columns; column += kEmbeddingLanes * kWidth) {
      copy(column);
    }
  };
  if (row < 0) {
    const Accumulate<T> zeros[kWidth] = {};
    each_run([&](int column) { store_run<kWidth>(to + column, zeros); });
  } else {
    const T* from = table + row * columns;
    each_run([&](int column) {
      Accumulate<T> values[kWidth];
      load_run<kWidth>(from + column, values);
      store_run<kWidth>(to + column, values);
    });
  }
}

}  // namespace strata::cuda
