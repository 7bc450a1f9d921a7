#pragma once

#include "kernels/row_team.cuh"

namespace strata::cuda {

/// y = (x - mean) · inverse_std · gain + bias, for rows of `columns`. One team per row.
template <class T, int kWidth, int kHeld>
__global__ void __launch_bounds__(kLargestTeam)
    layer_norm_rows(std::int64_t rows, int columns, Accumulate<T> epsilon, const T* x, const Accumulate<T>* gain,
                    const Accumulate<T>* bias, T* y, Accumulate<T>* mean_of_rows, Accumulate<T>* inverse_std_of_rows) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_team();
  if (row >= rows) return;
  const TeamRow<T, kWidth, kHeld> values(x + row * columns, columns);

  V sum = 0;
  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V v[kWidth];
    values.read(column, slot, v);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += v[i];
  });
  const V mean = team_sum(sum) / static_cast<V>(columns);

  V squares = 0;
  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V v[kWidth];
    values.read(column, slot, v);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += (v[i] - mean) * (v[i] - mean);
  });
  const V inverse_std = V{1} / std::sqrt(team_sum(squares) / static_cast<V>(columns) + epsilon);

  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V v[kWidth];
    V g[kWidth];
    V b[kWidth];
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
    load_run<kWidth>(bias + column, b);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = (v[i] - mean) * inverse_std * g[i] + b[i];
    store_run<kWidth>(y + row * columns + column, v);
  });
  if (threadIdx.x == 0) {
    mean_of_rows[row] = mean;
    inverse_std_of_rows[row] = inverse_std;
  }
}

/// With n = (x - mean) · inverse_std and g = dy · gain: dx = inverse_std · (g - average(g) - n · average(g · n)). dx
/// may alias dy.
template <class T, int kWidth, int kHeld>
__global__ void __launch_bounds__(kLargestTeam)
    layer_norm_input_gradient_rows(std::int64_t rows, int columns, const T* dy, const T* x, const Accumulate<T>* gain,
                                   const Accumulate<T>* mean_of_rows, const Accumulate<T>* inverse_std_of_rows, T* dx,
                                   bool accumulate) {
  using V = Accumulate<T>;
  const std::int64_t row = row_of_team();
  if (row >= rows) return;
  const TeamRow<T, kWidth, kHeld> gradients(dy + row * columns, columns);
  const TeamRow<T, kWidth, kHeld> values(x + row * columns, columns);
  const V mean = mean_of_rows[row];
  const V inverse_std = inverse_std_of_rows[row];

  V sum = 0;
  V product_sum = 0;
  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V d[kWidth];
    V v[kWidth];
    V g[kWidth];
    gradients.read(column, slot, d);
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      sum += d[i] * g[i];
      product_sum += d[i] * g[i] * ((v[i] - mean) * inverse_std);
    }
  });
  const V average = team_sum(sum) / static_cast<V>(columns);
  const V product_average = team_sum(product_sum) / static_cast<V>(columns);

  for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
    V d[kWidth];
    V v[kWidth];
    V g[kWidth];
    gradients.read(column, slot, d);
    values.read(column, slot, v);
    load_run<kWidth>(gain + column, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      d[i] = inverse_std * (d[i] * g[i] - average - (v[i] - mean) * inverse_std * product_average);
    }
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

}  // namespace strata::cuda
