#pragma once

#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

using Four = float __attribute__((vector_size(16)));

/// to[j * to_stride + i] = from[i * from_stride + j] * factor for i, j < 4
inline void transpose_four(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
                           float factor) {
  const Four a = load<Four>(from) * factor;
  const Four b = load<Four>(from + from_stride) * factor;
  const Four c = load<Four>(from + 2 * from_stride) * factor;
  const Four d = load<Four>(from + 3 * from_stride) * factor;
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store(to + to_stride, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store(to + 2 * to_stride, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store(to + 3 * to_stride, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

/// to[column, row] = from[row, column] * factor
inline void transpose(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_stride, float* to,
                      std::int64_t to_stride, float factor) {
  const std::int64_t whole_rows = rows / 4 * 4;
  const std::int64_t whole_columns = columns / 4 * 4;
  for (std::int64_t row = 0; row < whole_rows; row += 4) {
    for (std::int64_t column = 0; column < whole_columns; column += 4) {
      transpose_four(from + row * from_stride + column, from_stride, to + column * to_stride + row, to_stride, factor);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = row < whole_rows ? whole_columns : 0; column < columns; ++column) {
      to[column * to_stride + row] = from[row * from_stride + column] * factor;
    }
  }
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
