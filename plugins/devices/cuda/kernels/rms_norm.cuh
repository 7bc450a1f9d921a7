#pragma once

#include "kernels/column_tile.cuh"
#include "kernels/row_team.cuh"

namespace strata::cuda {

/// y = x · inverse_rms · gain, for rows of `columns`. One team per row.
template <class T, int kWidth, int kHeld>
__global__ void __launch_bounds__(kLargestTeam)
    rms_norm_rows(std::int64_t rows, int columns, Accumulate<T> epsilon, const T* x, const Accumulate<T>* gain, T* y,
                  Accumulate<T>* inverse_rms_of_rows) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_team();
  if (row >= rows) return;
  const TeamRow<T, kWidth, kHeld> values(x + row * columns, columns);

  V squares = 0;
  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V v[kWidth];
    values.read(column, slot, v);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += v[i] * v[i];
  });
  const V inverse_rms = V{1} / std::sqrt(team_sum(squares) / static_cast<V>(columns) + epsilon);

  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V v[kWidth];
    V g[kWidth];
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = v[i] * inverse_rms * g[i];
    store_run<kWidth>(y + row * columns + column, v);
  });
  if (threadIdx.x == 0) inverse_rms_of_rows[row] = inverse_rms;
}

/// With n = x · inverse_rms and g = dy · gain: dx = inverse_rms · (g - n · average(g · n)). dx may alias dy.
template <class T, int kWidth, int kHeld>
__global__ void __launch_bounds__(kLargestTeam)
    rms_norm_input_gradient_rows(std::int64_t rows, int columns, const T* dy, const T* x, const Accumulate<T>* gain,
                                 const Accumulate<T>* inverse_rms_of_rows, T* dx, bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_team();
  if (row >= rows) return;
  const TeamRow<T, kWidth, kHeld> gradients(dy + row * columns, columns);
  const TeamRow<T, kWidth, kHeld> values(x + row * columns, columns);
  const V inverse_rms = inverse_rms_of_rows[row];

  V sum = 0;
  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V d[kWidth];
    V v[kWidth];
    V g[kWidth];
    gradients.read(column, slot, d);
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += d[i] * g[i] * (v[i] * inverse_rms);
  });
  const V average = team_sum(sum) / static_cast<V>(columns);

  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V d[kWidth];
    V v[kWidth];
    V g[kWidth];
    gradients.read(column, slot, d);
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) d[i] = inverse_rms * (d[i] * g[i] - v[i] * inverse_rms * average);
    T* to = dx + row * columns + column;
    if (accumulate) {
      V before[kWidth];
      load_run<kWidth>(to, before);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) d[i] += before[i];
    }
    store_run<kWidth>(to, d);
  });
}

/// Block (tile, slice) stores in partial[slice][columns] the contribution of its slice's rows to the gradient of gain.
template <class T, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    rms_norm_parameter_gradient_slices(std::int64_t rows, int columns, std::int64_t rows_per_slice, const T* dy,
                                       const T* x, const Accumulate<T>* inverse_rms_of_rows, Accumulate<T>* partial) {
  using V = Accumulate<T>;
  const int tile = static_cast<int>(blockIdx.x) * kTileColumns<kWidth>;
  const int column = tile + static_cast<int>(threadIdx.x) * kWidth;
  const std::int64_t begin = blockIdx.y * rows_per_slice;
  const std::int64_t end = begin + rows_per_slice < rows ? begin + rows_per_slice : rows;

  V sum[kWidth] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kTileRows) {
      V d[kWidth];
      V v[kWidth];
      load_run<kWidth>(dy + row * columns + column, d);
      load_run<kWidth>(x + row * columns + column, v);
      const V inverse_rms = inverse_rms_of_rows[row];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += d[i] * (v[i] * inverse_rms);
    }
  }
  const V total = sum_over_tile_rows(sum);
  const int own = thread_rank();
  if (own >= kTileColumns<kWidth> || tile + own >= columns) return;
  partial[static_cast<std::int64_t>(blockIdx.y) * columns + tile + own] = total;
}

/// Sums over slices in their order.
template <class V>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    rms_norm_parameter_gradient_total(int slices, int columns, const V* partial, V* dgain, bool accumulate) {
  const int column = static_cast<int>(blockIdx.x * kTileLanes + threadIdx.x);
  V sum[1] = {};
  if (column < columns) {
#pragma unroll 4
    for (int slice = threadIdx.y; slice < slices; slice += kTileRows) {
      sum[0] += partial[static_cast<std::int64_t>(slice) * columns + column];
    }
  }
  const V total = sum_over_tile_rows(sum);
  if (threadIdx.y != 0 || column >= columns) return;
  dgain[column] = accumulate ? dgain[column] + total : total;
}

}  // namespace strata::cuda
