#pragma once

#include "kernels/column_tile.cuh"
#include "kernels/element_run.cuh"
#include "kernels/row_groups.cuh"

namespace strata::cuda {

/// dtable[row] (+)= the rows of dy that name it, for block (occupied row, tile of columns). Each warp sums every
/// kTileRows-th of them, and the sums of the warps are added in order. So the order of additions depends only on the
/// ids.
template <class T, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    embedding_gradient(int columns, RowGroups groups, const T* dy, Accumulate<T>* dtable, bool accumulate) {
  using V = Accumulate<T>;
  if (static_cast<int>(blockIdx.x) >= *groups.occupied) return;
  const std::int64_t row = groups.occupied_rows[blockIdx.x];
  const int* positions = groups.positions + groups.begins[row];
  const int size = groups.ends[row] - groups.begins[row];
  const int tile = static_cast<int>(blockIdx.y) * kTileColumns<kWidth>;
  const int column = tile + static_cast<int>(threadIdx.x) * kWidth;

  V sum[kWidth] = {};
  if (column < columns) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < size; i += kTileRows) {
      V values[kWidth];
      load_run<kWidth>(dy + static_cast<std::int64_t>(positions[i]) * columns + column, values);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += values[j];
    }
  }
  const V total = sum_over_tile_rows(sum);
  const int own = thread_rank();
  if (own >= kTileColumns<kWidth> || tile + own >= columns) return;
  V* to = dtable + row * columns + tile + own;
  *to = accumulate ? *to + total : total;
}

/// Sets the rows that no id names to 0.
template <class V, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    clear_unoccupied_rows(std::int64_t rows, int columns, RowGroups groups, V* dtable) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTileRows + threadIdx.y;
  if (row >= rows || groups.ends[row] > 0) return;
  const V zeros[kWidth] = {};
  for (int column = static_cast<int>(threadIdx.x) * kWidth; column < columns; column += kTileLanes * kWidth) {
    store_run<kWidth>(dtable + row * columns + column, zeros);
  }
}

}  // namespace strata::cuda
