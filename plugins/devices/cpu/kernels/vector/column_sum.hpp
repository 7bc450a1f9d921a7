#pragma once

#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Rows per partial sum. Partial sums reduce the rounding error of a large total.
constexpr std::int64_t kColumnSumRows = 64;

/// Divides the columns among threads, so that no sum is shared. A range is at least a few cache lines wide.
template <class Body>
inline void parallel_columns(int threads, std::int64_t rows, std::int64_t columns, const Body& body) {
  parallel_ranges(threads, columns, 4 * kLanes, larger(4 * kLanes, divide_up(kParallelGrain, larger(rows, 1))), body);
}

/// y[column] (+)= sum over rows of value(row, column), for `count` neighbouring vectors of columns.
template <int count, class Value>
inline void sum_column_vectors(std::int64_t rows, std::int64_t column, float* y, bool accumulate, const Value& value) {
  Float totals[count];
  for (int v = 0; v < count; ++v) totals[v] = accumulate ? load(y + column + v * kLanes) : Float{};
  for (std::int64_t block = 0; block < rows; block += kColumnSumRows) {
    Float part[count] = {};
    for (std::int64_t row = block, end = smaller(rows, block + kColumnSumRows); row < end; ++row) {
      STRATA_UNROLL
      for (int v = 0; v < count; ++v) part[v] += value(row, column + v * kLanes);
    }
    for (int v = 0; v < count; ++v) totals[v] += part[v];
  }
  for (int v = 0; v < count; ++v) store(y + column + v * kLanes, totals[v]);
}

/// y[column] (+)= sum over rows of value(row, column, lanes), for columns [begin, end).
template <class Value>
inline void sum_columns(std::int64_t rows, std::int64_t begin, std::int64_t end, float* y, bool accumulate,
                        const Value& value) {
  const auto whole = [&](std::int64_t row, std::int64_t at) { return value(row, at, AllLanes{}); };
  std::int64_t column = begin;
  for (; column + 4 * kLanes <= end; column += 4 * kLanes) {
    sum_column_vectors<4>(rows, column, y, accumulate, whole);
  }
  for (; column + kLanes <= end; column += kLanes) sum_column_vectors<1>(rows, column, y, accumulate, whole);
  if (column == end) return;
  const FirstLanes rest{end - column};
  float last[kLanes] = {};
  if (accumulate) store(last, load(y + column, rest));
  sum_column_vectors<1>(rows, 0, last, accumulate,
                        [&](std::int64_t row, std::int64_t) { return value(row, column, rest); });
  store(y + column, load(last), rest);
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
