#include "kernels/vector/broadcast.hpp"
#include "kernels/vector/column_sum.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
float row_sum(std::int64_t columns, const T* x) {
  Float total{};
  each_vector(0, columns, [&](std::int64_t i, auto lanes) { total += load(x + i, lanes); });
  return horizontal_sum(total);
}

/// x[rows, columns] -> y[rows]
template <class T>
void sum_rows(std::int64_t rows, std::int64_t columns, const T* x, float* y, bool accumulate, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float total = row_sum(columns, x + row * columns);
      y[row] = accumulate ? y[row] + total : total;
    }
  });
}

/// x[outer, rows, columns] -> y[outer, columns]
template <class T>
void sum_middle(std::int64_t outer, std::int64_t rows, std::int64_t columns, const T* x, float* y, bool accumulate,
                int threads) {
  for (std::int64_t i = 0; i < outer; ++i) {
    const T* slice = x + i * rows * columns;
    parallel_columns(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
      sum_columns(rows, begin, end, y + i * columns, accumulate,
                  [=](std::int64_t row, std::int64_t column, auto lanes) {
                    return load(slice + row * columns + column, lanes);
                  });
    });
  }
}

/// Sums over any mixture of kept and reduced dims.
template <class T>
void sum_mixed(const MergedShape& merged, const T* x, float* y, bool accumulate) {
  if (!accumulate) __builtin_memset(y, 0, static_cast<std::size_t>(merged.operand_size()) * sizeof(float));
  const std::int64_t columns = merged.columns();
  for (std::int64_t row = 0, rows = merged.rows(); row < rows; ++row) {
    float* to = y + merged.operand_offset(row);
    const T* from = x + row * columns;
    if (merged.columns_present()) {
      map_range(0, columns, to, from, to, [](Float a, Float b) { return a + b; });
    } else {
      *to += row_sum(columns, from);
    }
  }
}

template <class T>
void sum(const BroadcastShape& shape, const T* x, float* y, bool accumulate, int threads) {
  const MergedShape merged = merge(shape);
  const bool last = merged.columns_present();
  if (merged.count == 1) {
    if (last) return sum_middle(1, 1, merged.sizes[0], x, y, accumulate, threads);
    return sum_rows(1, merged.sizes[0], x, y, accumulate, threads);
  }
  if (merged.count == 2 && last) {
    return sum_middle(1, merged.sizes[0], merged.sizes[1], x, y, accumulate, threads);
  }
  if (merged.count == 2) return sum_rows(merged.sizes[0], merged.sizes[1], x, y, accumulate, threads);
  if (merged.count == 3 && last) {
    return sum_middle(merged.sizes[0], merged.sizes[1], merged.sizes[2], x, y, accumulate, threads);
  }
  sum_mixed(merged, x, y, accumulate);
}

constexpr int kHalf = kLanes / 2;
using HalfFloat = float __attribute__((vector_size(kHalf * 4)));
using HalfDouble = double __attribute__((vector_size(kHalf * 8)));

/// totals += the squares of a vector's two halves.
inline void add_squares(Float value, HalfDouble* totals) {
  HalfFloat halves[2];
  __builtin_memcpy(halves, &value, sizeof value);
  STRATA_UNROLL
  for (int i = 0; i < 2; ++i) {
    const HalfDouble wide = __builtin_convertvector(halves[i], HalfDouble);
    totals[i] += wide * wide;
  }
}

template <class T>
double squares_of_range(std::int64_t begin, std::int64_t end, const T* x) {
  HalfDouble totals[4] = {};
  std::int64_t i = begin;
  for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
    add_squares(load(x + i), totals);
    add_squares(load(x + i + kLanes), totals + 2);
  }
  for (; i < end; i += kLanes) add_squares(load_first(x + i, smaller(kLanes, end - i)), totals);
  const HalfDouble total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
  double result = 0.0;
  for (int lane = 0; lane < kHalf; ++lane) result += total[lane];
  return result;
}

template <class T>
double sum_of_squares(std::int64_t size, const T* x, int threads) {
  constexpr std::int64_t kParts = 64;
  const std::int64_t part_length = round_up(divide_up(size, kParts), 64);
  double parts[kParts] = {};
  double* to = parts;
  const std::int64_t grain = divide_up(kParallelGrain, larger(part_length, 1));
  parallel_ranges(threads, kParts, 1, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end && part * part_length < size; ++part) {
      to[part] = squares_of_range(part * part_length, smaller(size, (part + 1) * part_length), x);
    }
  });
  double total = 0.0;
  for (const double part : parts) total += part;
  return total;
}

template <class T>
constexpr ReduceKernels<T> kKernels = {sum<T>, sum_of_squares<T>};

}  // namespace

const ByElement<ReduceKernels> reduce_kernels = {kKernels<float>, kKernels<BFloat16>, kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
