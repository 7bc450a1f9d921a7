#pragma once

#include "kernels/wide_row.cuh"
#include "language/index_map.hpp"

/// \file
/// The parts of cross-entropy that read all logits x[rows, columns]. A block has one row. Columns may be a shard of the
/// vocabulary.

namespace strata::cuda {

/// exp for logits. 16-bit logits do not need an exact exponential, which would make the sums bound by arithmetic.
template <class T>
__device__ __forceinline__ Accumulate<T> exponential(Accumulate<T> value) {
  if constexpr (sizeof(T) == 2) {
    return __expf(value);
  } else {
    return std::exp(value);
  }
}

/// largest[rows] = the largest logit of each row.
template <class T>
__global__ void __launch_bounds__(kWideRowThreads) row_max(int columns, const T* x, Accumulate<T>* largest_of_rows) {
  using V = Accumulate<T>;
  const T* row = x + static_cast<std::int64_t>(blockIdx.x) * columns;
  V largest = -static_cast<V>(INFINITY);
  for_each_in_wide_row(
      columns,
      [&]<int N>(int column) {
        V values[N];
        load_run<N>(row + column, values);
#pragma unroll
        for (int i = 0; i < N; ++i) largest = Maximum{}(largest, values[i]);
      },
      row);
  largest = block_max(largest);
  if (threadIdx.x == 0) largest_of_rows[blockIdx.x] = largest;
}

/// sum[rows] = Σ exp(x - m)
template <class T>
__global__ void __launch_bounds__(kWideRowThreads)
    sum_exponentials(int columns, const T* x, const Accumulate<T>* m, Accumulate<T>* sum_of_rows) {
  using V = Accumulate<T>;
  const T* row = x + static_cast<std::int64_t>(blockIdx.x) * columns;
  const V shift = m[blockIdx.x];
  V sum = 0;
  for_each_in_wide_row(
      columns,
      [&]<int N>(int column) {
        V values[N];
        load_run<N>(row + column, values);
#pragma unroll
        for (int i = 0; i < N; ++i) sum += exponential<T>(values[i] - shift);
      },
      row);
  sum = block_sum(sum);
  if (threadIdx.x == 0) sum_of_rows[blockIdx.x] = sum;
}

/// dx = exp(x - log_sum) - (1 for the target's column), or 0 if the target is negative. dx may alias x.
template <class T>
__global__ void __launch_bounds__(kWideRowThreads)
    cross_entropy_gradient(int columns, DimIndexMap vocabulary, const T* x, const Accumulate<T>* log_sum,
                           const std::int32_t* targets, T* dx) {
  using V = Accumulate<T>;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * columns;
  const T* from = x + begin;
  T* to = dx + begin;
  const std::int32_t target = targets[blockIdx.x];
  const int target_column = static_cast<int>(vocabulary.local_index(target));
  const V shift = log_sum[blockIdx.x];
  for_each_in_wide_row(
      columns,
      [&]<int N>(int column) {
        V values[N] = {};
        if (target >= 0) {
          load_run<N>(from + column, values);
#pragma unroll
          for (int i = 0; i < N; ++i) {
            values[i] = exponential<T>(values[i] - shift) - (column + i == target_column ? V{1} : V{0});
          }
        }
        store_run<N>(to + column, values);
      },
      from, to);
}

}  // namespace strata::cuda
