#include "kernels/reduce.hpp"

#include "kernels/vector/broadcast.hpp"
#include "kernels/vector/column_sum.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/target.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

float row_sum(std::int64_t columns, const float* x) {
  Float total{};
  std::int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) total += load(x + i);
  if (i < columns) total += load_first(x + i, columns - i);
  return horizontal_sum(total);
}

/// x[rows, columns] -> y[rows]
void sum_rows(std::int64_t rows, std::int64_t columns, const float* x, float* y, bool accumulate, int threads) {
  parallel_rows(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float total = row_sum(columns, x + row * columns);
      y[row] = accumulate ? y[row] + total : total;
    }
  });
}

/// x[outer, rows, columns] -> y[outer, columns]
void sum_middle(std::int64_t outer, std::int64_t rows, std::int64_t columns, const float* x, float* y, bool accumulate,
                int threads) {
  for (std::int64_t i = 0; i < outer; ++i) {
    const float* slice = x + i * rows * columns;
    parallel_columns(threads, rows, columns, [=](std::int64_t begin, std::int64_t end) {
      sum_columns(
          rows, begin, end, y + i * columns, accumulate,
          [=](std::int64_t row, std::int64_t column) { return load(slice + row * columns + column); },
          [=](std::int64_t row, std::int64_t column, std::int64_t n) {
            return load_first(slice + row * columns + column, n);
          });
    });
  }
}

/// Any other mixture of dims that stay and dims that go.
void sum_mixed(const MergedShape& merged, const float* x, float* y, bool accumulate) {
  if (!accumulate) __builtin_memset(y, 0, static_cast<std::size_t>(merged.operand_size()) * sizeof(float));
  const std::int64_t columns = merged.columns();
  for (std::int64_t row = 0, rows = merged.rows(); row < rows; ++row) {
    float* to = y + merged.operand_offset(row);
    const float* from = x + row * columns;
    if (merged.columns_present()) {
      map_range(0, columns, to, from, to, [](Float a, Float b) { return a + b; });
    } else {
      *to += row_sum(columns, from);
    }
  }
}

void sum(const BroadcastShape& shape, const float* x, float* y, bool accumulate, int threads) {
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

using Double = double __attribute__((vector_size(kLanes * 8)));
using HalfDouble = double __attribute__((vector_size(kLanes * 4)));
using HalfFloat = float __attribute__((vector_size(kLanes * 2)));

double squares_of_range(std::int64_t begin, std::int64_t end, const float* x) {
  constexpr int kHalf = kLanes / 2;
  HalfDouble totals[4] = {};
  std::int64_t i = begin;
  for (; i + 4 * kHalf <= end; i += 4 * kHalf) {
    STRATA_UNROLL
    for (int part = 0; part < 4; ++part) {
      const HalfDouble value = __builtin_convertvector(load<HalfFloat>(x + i + part * kHalf), HalfDouble);
      totals[part] += value * value;
    }
  }
  const HalfDouble total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
  double result = 0.0;
  for (int lane = 0; lane < kHalf; ++lane) result += total[lane];
  for (; i < end; ++i) result += static_cast<double>(x[i]) * x[i];
  return result;
}

double sum_of_squares(std::int64_t size, const float* x, int threads) {
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

}  // namespace

const ReduceKernels reduce_kernels = {sum, sum_of_squares};

}  // namespace strata::cpu::STRATA_CPU_TARGET
