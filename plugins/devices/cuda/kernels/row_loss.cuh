#pragma once

#include "language/index_map.hpp"
#include "language/language.hpp"

/// \file
/// The parts of cross-entropy that read one number per row.

namespace strata::cuda {

inline constexpr int kRowLossThreads = 256;
/// Threads of the single block, which suffices because there are few rows compared to logits.
inline constexpr int kTotalThreads = 1024;

__device__ __forceinline__ std::int64_t row_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// log_sum = m + log(s). It may alias m or s.
template <class V>
__global__ void __launch_bounds__(kRowLossThreads)
    log_sum_exponential(std::int64_t rows, const V* m, const V* s, V* log_sum) {
  const std::int64_t row = row_of_thread();
  if (row < rows) log_sum[row] = m[row] + std::log(s[row]);
}

/// The logit of each row's target, or 0 if the target is negative or in another shard.
template <class T>
__global__ void __launch_bounds__(kRowLossThreads)
    pick(std::int64_t rows, int columns, DimIndexMap vocabulary, const T* x, const std::int32_t* targets,
         Accumulate<T>* picked) {
  const std::int64_t row = row_of_thread();
  if (row >= rows) return;
  const std::int64_t column = vocabulary.local_index(targets[row]);
  picked[row] = column < 0 ? Accumulate<T>{0} : widen(x[row * columns + column]);
}

/// The sum of term(row) over the rows whose targets are not negative, computed by one block.
template <class Term>
__device__ __forceinline__ void total_over_targets(std::int64_t rows, const std::int32_t* targets, bool accumulate,
                                                   double* total, const Term& term) {
  double sum = 0;
#pragma unroll 4
  for (std::int64_t row = threadIdx.x; row < rows; row += kTotalThreads) {
    if (targets[row] >= 0) sum += term(row);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = accumulate ? *total + sum : sum;
}

template <class V>
__global__ void __launch_bounds__(kTotalThreads)
    cross_entropy_sum(std::int64_t rows, const V* log_sum, const V* picked, const std::int32_t* targets, double* total,
                      bool accumulate) {
  total_over_targets(rows, targets, accumulate, total, [=](std::int64_t row) {
    return static_cast<double>(log_sum[row]) - static_cast<double>(picked[row]);
  });
}

static __global__ void __launch_bounds__(kTotalThreads)
    count_targets(std::int64_t rows, const std::int32_t* targets, double* total, bool accumulate) {
  total_over_targets(rows, targets, accumulate, total, [](std::int64_t /*row*/) { return 1.0; });
}

}  // namespace strata::cuda
