#pragma once

#include "kernels/column_tile.cuh"

namespace strata::cuda {

/// Block (tile, slice) stores in partial[slice][2][columns] the contributions of its slice's rows to the gradients of
/// gain and bias.
template <class T, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    layer_norm_parameter_gradient_slices(std::int64_t rows, int columns, std::int64_t rows_per_slice, const T* dy,
                                         const T* x, const Accumulate<T>* mean_of_rows,
                                         const Accumulate<T>* inverse_std_of_rows, Accumulate<T>* partial) {
  using V = Accumulate<T>;
  const int tile = static_cast<int>(blockIdx.x) * kTileColumns<kWidth>;
  const int column = tile + static_cast<int>(threadIdx.x) * kWidth;
  const std::int64_t begin = blockIdx.y * rows_per_slice;
  const std::int64_t end = begin + rows_per_slice < rows ? begin + rows_per_slice : rows;

  V gain_sum[kWidth] = {};
  V bias_sum[kWidth] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kTileRows) {
      V d[kWidth];
      V v[kWidth];
      load_run<kWidth>(dy + row * columns + column, d);
      load_run<kWidth>(x + row * columns + column, v);
      const V mean = mean_of_rows[row];
      const V inverse_std = inverse_std_of_rows[row];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        gain_sum[i] += d[i] * ((v[i] - mean) * inverse_std);
        bias_sum[i] += d[i];
      }
    }
  }
  const V gain_total = sum_over_tile_rows(gain_sum);
  const V bias_total = sum_over_tile_rows(bias_sum);
  const int own = thread_rank();
  if (own >= kTileColumns<kWidth> || tile + own >= columns) return;
  V* to = partial + static_cast<std::int64_t>(blockIdx.y) * 2 * columns + tile + own;
  to[0] = gain_total;
  to[columns] = bias_total;
}

/// Sums over slices in their order: blocks (tile, 0) for dgain, (tile, 1) for dbias.
template <class V>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    layer_norm_parameter_gradient_total(int slices, int columns, const V* partial, V* dgain, V* dbias,
                                        bool accumulate) {
  const int column = static_cast<int>(blockIdx.x * kTileLanes + threadIdx.x);
  V sum[1] = {};
  if (column < columns) {
    const V* from = partial + static_cast<std::int64_t>(blockIdx.y) * columns + column;
#pragma unroll 4
    for (int slice = threadIdx.y; slice < slices; slice += kTileRows) {
      sum[0] += from[static_cast<std::int64_t>(slice) * 2 * columns];
    }
  }
  const V total = sum_over_tile_rows(sum);
  if (threadIdx.y != 0 || column >= columns) return;
  V* to = (blockIdx.y == 0 ? dgain : dbias) + column;
  *to = accumulate ? *to + total : total;
}

}  // namespace strata::cuda
