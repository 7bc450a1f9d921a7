#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "language/index_map.hpp"
#include "language/language.hpp"
#include "launchers/call.hpp"

namespace strata::cuda {

// Rows that a whole block reads once, with any alignment. For example, rows of 50257 logits start anywhere.

inline constexpr int kWideRowThreads = 512;

/// Calls function.operator()<N>(column) for each of the thread's runs of N columns. If all rows have the same
/// alignment, runs have 16 bytes, except for single columns before the first and after the last run. Otherwise all runs
/// are single columns.
template <class T, class Function, class... Rows>
__device__ __forceinline__ void for_each_in_wide_row(int columns, const Function& function, const T* row,
                                                     const Rows*... others) {
  constexpr int kWidth = kPackedElements<T>;
  [[maybe_unused]] constexpr int kUnroll = sizeof(T) < 8 ? 4 : 1;  // f64 functions need many registers
  const auto place = [](const T* from) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % 16 / sizeof(T));
  };
  const bool alike = ((place(others) == place(row)) && ...);
  const int unaligned = (kWidth - place(row)) % kWidth;
  const int head = alike && unaligned < columns ? unaligned : columns;
  const int tail = columns - (columns - head) % kWidth;
  const int first = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);

#pragma unroll 1
  for (int column = first; column < head; column += threads) function.template operator()<1>(column);
#pragma unroll kUnroll
  for (int column = head + first * kWidth; column < tail; column += threads * kWidth) {
    function.template operator()<kWidth>(column);
  }
#pragma unroll 1
  for (int column = tail + first; column < columns; column += threads) function.template operator()<1>(column);
}

// The parts of cross-entropy that read one number per row.

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

/// Parts of a label: of its target, and of every column. {1, 0}: the label is its target.
struct LabelParts {
  double target;
  double each;
};

/// The sum over each row's columns in this shard of label · x, or 0 if the target is negative.
template <class T>
__global__ void __launch_bounds__(kRowLossThreads)
    pick(std::int64_t rows, int columns, DimIndexMap vocabulary, LabelParts parts, const T* x,
         const std::int32_t* targets, Accumulate<T>* picked) {
  const std::int64_t row = row_of_thread();
  if (row >= rows) return;
  const std::int64_t column = vocabulary.local_index(targets[row]);
  using V = Accumulate<T>;
  V sum = column < 0 ? V{0} : static_cast<V>(parts.target) * widen(x[row * columns + column]);
  if (parts.each > 0 && targets[row] >= 0) {
    for (int each = 0; each < columns; ++each) sum += static_cast<V>(parts.each) * widen(x[row * columns + each]);
  }
  picked[row] = sum;
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

/// The number of targets that have the largest logit of their row. Of equals, the first one is the largest.
template <class T>
__global__ void __launch_bounds__(kTotalThreads)
    count_correct(std::int64_t rows, int columns, const T* x, const std::int32_t* targets, double* total,
                  bool accumulate) {
  total_over_targets(rows, targets, accumulate, total, [=](std::int64_t row) {
    const T* logits = x + row * columns;
    const int target = targets[row];
    if (target >= columns) return 0.0;
    const Accumulate<T> own = widen(logits[target]);
    bool is_best = true;
    for (int j = 0; j < columns && is_best; ++j) {
      is_best = j < target ? widen(logits[j]) < own : widen(logits[j]) <= own;
    }
    return is_best ? 1.0 : 0.0;
  });
}

// The parts of cross-entropy that read all logits x[rows, columns]. A block has one row. Columns may be a shard of the
// vocabulary.

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

/// dx = exp(x - log_sum) - label, or 0 if the target is negative. dx may alias x.
template <class T>
__global__ void __launch_bounds__(kWideRowThreads)
    cross_entropy_gradient(int columns, DimIndexMap vocabulary, LabelParts parts, const T* x,
                           const Accumulate<T>* log_sum, const std::int32_t* targets, T* dx) {
  using V = Accumulate<T>;
  const V each = static_cast<V>(parts.each);
  const V own = static_cast<V>(parts.target + parts.each);
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
            values[i] = exponential<T>(values[i] - shift) - (column + i == target_column ? own : each);
          }
        }
        store_run<N>(to + column, values);
      },
      from, to);
}

namespace {

/// One block for each row. A long row gives each thread a few runs of 16 bytes.
template <class T>
Geometry blocks_of_rows(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kRunsOfThread = 4;
  const unsigned warps = blocks_for(columns, kRunsOfThread * kPackedElements<T> * kWarpSize);
  return {.grid = {static_cast<unsigned>(rows)},
          .block = {std::clamp<unsigned>(warps * kWarpSize, kWarpSize, kWideRowThreads)}};
}

Geometry threads_of_rows(std::int64_t rows) {
  return {.grid = {blocks_for(rows, kRowLossThreads)}, .block = {kRowLossThreads}};
}

constexpr Geometry kOneBlock = {.grid = {}, .block = {kTotalThreads}};

LabelParts label_parts(const OpInstance& op) {
  if (!op.attributes.has("label_smoothing")) return {1, 0};
  const double smoothing = op.attributes.number("label_smoothing");
  const auto width = static_cast<double>(kernels::index_map(op, op.operands[0].dims.back()).global_size);
  return {1 - smoothing, smoothing / width};
}

}  // namespace

void register_cross_entropy(Registration& registration) {
  add(registration, {"row_max", "t", "f"}, []<class T>(const OpInstance& op) {
    const std::int64_t width = columns(op.operands[0]);
    return call(row_max<T>, blocks_of_rows<T>(rows(op.operands[0]), width), width, Operand<T>{0},
                Result<Accumulate<T>>{0});
  });
  add(registration, {"sum_exponentials", "tf", "f"}, []<class T>(const OpInstance& op) {
    using V = Accumulate<T>;
    const std::int64_t width = columns(op.operands[0]);
    return call(sum_exponentials<T>, blocks_of_rows<T>(rows(op.operands[0]), width), width, Operand<T>{0},
                Operand<V>{1}, Result<V>{0});
  });
  add(registration, {"log_sum_exponential", "ff", "f"}, []<class T>(const OpInstance& op) {
    using V = Accumulate<T>;
    const std::int64_t size = elements(op.results[0]);
    return call(log_sum_exponential<V>, threads_of_rows(size), size, Operand<V>{0}, Operand<V>{1}, Result<V>{0});
  });
  add(registration, {"pick", "ti", "f"}, []<class T>(const OpInstance& op) {
    const std::int64_t height = rows(op.operands[0]);
    return call(pick<T>, threads_of_rows(height), height, columns(op.operands[0]),
                dim_index_map(op, op.operands[0].dims.back()), label_parts(op), Operand<T>{0}, Operand<std::int32_t>{1},
                Result<Accumulate<T>>{0});
  });
  add(registration, {"cross_entropy_sum", "ffi", "d", true}, []<class T>(const OpInstance& op) {
    using V = Accumulate<T>;
    return call(cross_entropy_sum<V>, kOneBlock, elements(op.operands[0]), Operand<V>{0}, Operand<V>{1},
                Operand<std::int32_t>{2}, Result<double>{0}, op.accumulate);
  });
  add(registration, {"count_targets", "i", "d", true}, [](const OpInstance& op) {
    return call(count_targets, kOneBlock, elements(op.operands[0]), Operand<std::int32_t>{0}, Result<double>{0},
                op.accumulate);
  });
  add(registration, {"count_correct", "ti", "d", true}, []<class T>(const OpInstance& op) {
    return call(count_correct<T>, kOneBlock, rows(op.operands[0]), columns(op.operands[0]), Operand<T>{0},
                Operand<std::int32_t>{1}, Result<double>{0}, op.accumulate);
  });
  add(registration, {"cross_entropy_gradient", "tfi", "t"}, []<class T>(const OpInstance& op) {
    const std::int64_t width = columns(op.operands[0]);
    return call(cross_entropy_gradient<T>, blocks_of_rows<T>(rows(op.operands[0]), width), width,
                dim_index_map(op, op.operands[0].dims.back()), label_parts(op), Operand<T>{0},
                Operand<Accumulate<T>>{1}, Operand<std::int32_t>{2}, Result<T>{0});
  });
}

}  // namespace strata::cuda
