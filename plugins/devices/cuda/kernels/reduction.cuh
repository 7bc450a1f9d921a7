#pragma once

#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"

/// \file
/// Sums over some dims of a tensor. Terms are split into chunks that depend only on the shape. The sums of chunks are
/// stored side by side and summed by the same kernels, so that results do not depend on timing.

namespace strata::cuda {

inline constexpr int kSumThreads = 256;
/// Number of threads of a block that share the terms of the same columns.
inline constexpr int kTermThreads = kSumThreads / kWarpSize;

/// Columns per block.
template <class T>
inline constexpr int kColumnTile = kWarpSize* kRunLength<T>;

/// x[terms, outer, columns] -> y[outer, columns]. The dims of `terms` and `outer` may be in any order.
struct ColumnSums {
  StridedIndex terms;
  std::int64_t term_count = 0;
  std::int64_t chunk_terms = 0;
  StridedIndex outer;
  std::int64_t outer_count = 0;
  std::int64_t columns = 0;
};

/// Number of loads in flight if offsets need no division.
inline constexpr int kLoadsAtOnce = 4;

/// sums += N neighbouring columns of every kTermThreads-th term of a range. A term is at x + place(term).
template <int N, int Loads, class A, class T, class Place>
__device__ __forceinline__ void add_terms(const Place& place, std::int64_t begin, std::int64_t end, const T* x,
                                          A (&sums)[N]) {
#pragma unroll Loads
  for (std::int64_t term = begin; term < end; term += kTermThreads) {
    A values[N];
    load_run<N>(x + place(term), values);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += values[i];
  }
}

template <int N, class A, class T>
__device__ __forceinline__ void sum_terms(const StridedIndex& terms, std::int64_t begin, std::int64_t end, const T* x,
                                          A (&sums)[N]) {
  if (terms.count > 1) return add_terms<N, 1>(terms, begin, end, x, sums);
  const std::int64_t stride = terms.count == 0 ? 0 : terms.strides[0];
  add_terms<N, kLoadsAtOnce>([stride](std::int64_t term) { return term * stride; }, begin, end, x, sums);
}

/// Grid: tiles of columns of all outer indices, then chunks of terms. With several chunks, y is [chunks, outer,
/// columns] and is overwritten. `packed`: addresses and strides are multiples of a run.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_columns(ColumnSums shape, bool packed, bool accumulate, const T* x, Accumulate<T>* y) {
  using A = Accumulate<T>;
  constexpr int kRun = kRunLength<T>;
  __shared__ A partial[kTermThreads][kColumnTile<T>];
  const std::int64_t tiles = (shape.columns + kColumnTile<T> - 1) / kColumnTile<T>;
  const std::int64_t outer = blockIdx.x / tiles;
  const std::int64_t tile = blockIdx.x % tiles * kColumnTile<T>;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t begin = blockIdx.y * shape.chunk_terms;
  const std::int64_t end = begin + shape.chunk_terms < shape.term_count ? begin + shape.chunk_terms : shape.term_count;

  const T* from = x + shape.outer(outer) + tile;
  if (packed) {
    A sums[kRun] = {};
    if (tile + lane * kRun < shape.columns) sum_terms(shape.terms, begin + warp, end, from + lane * kRun, sums);
#pragma unroll
    for (int i = 0; i < kRun; ++i) partial[warp][lane * kRun + i] = sums[i];
  } else {
    for (int i = 0; i < kRun; ++i) {
      const int column = i * kWarpSize + lane;
      A sum[1] = {};
      if (tile + column < shape.columns) sum_terms(shape.terms, begin + warp, end, from + column, sum);
      partial[warp][column] = sum[0];
    }
  }
  __syncthreads();

  A* to = y + (blockIdx.y * shape.outer_count + outer) * shape.columns + tile;
  for (int column = static_cast<int>(threadIdx.x); column < kColumnTile<T>; column += kSumThreads) {
    if (tile + column >= shape.columns) continue;
    A sum = accumulate ? to[column] : A{0};
#pragma unroll
    for (int i = 0; i < kTermThreads; ++i) sum += partial[i][column];
    to[column] = sum;
  }
}

/// x[outer, terms, columns] -> y[outer]. The dims of `terms` and `outer` may be in any order.
struct RowSums {
  StridedIndex terms;
  std::int64_t term_count = 0;
  std::int64_t columns = 0;
  StridedIndex outer;
  std::int64_t outer_count = 0;
  std::int64_t chunks = 1;
};

/// The sum of every kWarpSize-th run of a range. A run is at x + place(run).
template <int N, int Loads, class T, class Place>
__device__ __forceinline__ Accumulate<T> sum_runs(const Place& place, std::int64_t begin, std::int64_t end,
                                                  const T* x) {
  Accumulate<T> sums[N] = {};
#pragma unroll Loads
  for (std::int64_t run = begin; run < end; run += kWarpSize) {
    Accumulate<T> values[N];
    load_run<N>(x + place(run), values);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += values[i];
  }
#pragma unroll
  for (int i = 1; i < N; ++i) sums[0] += sums[i];
  return sums[0];
}

/// This lane's part of the sum of one chunk.
template <int N, class T>
__device__ __forceinline__ Accumulate<T> sum_chunk(const RowSums& shape, std::int64_t chunk, int lane, const T* x) {
  const std::int64_t runs_of_term = shape.columns / N;
  const std::int64_t runs = shape.term_count * runs_of_term;
  const std::int64_t chunk_runs = (runs + shape.chunks - 1) / shape.chunks;
  const std::int64_t begin = chunk * chunk_runs;
  const std::int64_t end = begin + chunk_runs < runs ? begin + chunk_runs : runs;
  if (shape.term_count == 1) {
    return sum_runs<N, kLoadsAtOnce>([](std::int64_t run) { return run * N; }, begin + lane, end, x);
  }
  const auto place = [&](std::int64_t run) {
    const auto divisor = static_cast<std::uint64_t>(runs_of_term);
    const auto term = static_cast<std::int64_t>(static_cast<std::uint64_t>(run) / divisor);
    return shape.terms(term) + (run - term * runs_of_term) * N;
  };
  return sum_runs<N, 1>(place, begin + lane, end, x);
}

/// One warp per chunk. With several chunks, y is [outer, chunks] and is overwritten. `packed`: addresses, strides and
/// columns are multiples of a run.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_rows(RowSums shape, bool packed, bool accumulate, const T* x, Accumulate<T>* y) {
  const std::int64_t work = std::int64_t{blockIdx.x} * kTermThreads + threadIdx.x / kWarpSize;
  if (work >= shape.outer_count * shape.chunks) return;
  const std::int64_t outer = work / shape.chunks;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const T* from = x + shape.outer(outer);
  const std::int64_t chunk = work - outer * shape.chunks;
  const Accumulate<T> part =
      packed ? sum_chunk<kRunLength<T>>(shape, chunk, lane, from) : sum_chunk<1>(shape, chunk, lane, from);
  const Accumulate<T> sum = warp_sum(part);
  if (lane == 0) y[work] = accumulate ? y[work] + sum : sum;
}

/// partial[block] = the sum of the squares of every gridDim.x-th tile, in f64.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_squares(std::int64_t size, bool packed, const T* x, double* partial) {
  constexpr int kRun = kRunLength<T>;
  double sum = 0;
  const auto add = [&](const auto& values) {
    for (const auto value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  };
  const std::int64_t first = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kSumThreads;
  const std::int64_t runs = packed ? size / kRun : 0;
#pragma unroll kLoadsAtOnce
  for (std::int64_t run = first; run < runs; run += threads) {
    Accumulate<T> values[kRun];
    load_run<kRun>(x + run * kRun, values);
    add(values);
  }
  for_each_single(runs * kRun, size, [&](std::int64_t i) {
    Accumulate<T> value[1];
    load_run<1>(x + i, value);
    add(value);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

}  // namespace strata::cuda
