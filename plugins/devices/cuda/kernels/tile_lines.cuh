#pragma once

#include "kernels/element_run.cuh"

/// \file
/// The operands of products of matrices by tiles, and how threads share a tile.

namespace strata::cuda {

/// What the number of an operand's line counts. A line has neighbouring elements.
enum class Line : std::uint8_t {
  result,  ///< rows or columns of the result, so a line has the terms of one row or column
  term     ///< terms of the sums, so a line has one term of many rows or columns
};

/// Lines of a matrix in memory. They may be gathered by numbers, or be in two parts with `split` lines in the first.
template <class T>
struct Lines {
  const T* first;
  std::int64_t stride;
  /// Lines of each part.
  int count;
  /// Elements of a line.
  int width;
  const int* numbers = nullptr;
  const T* second = nullptr;
  int split = 0x7FFFFFFF;

  /// The number of a line in memory, or -1 if it does not exist.
  [[nodiscard]] __device__ __forceinline__ int number(int line) const {
    const int of_part = line < split ? line : line - split;
    if (of_part >= count) return -1;
    return numbers != nullptr ? numbers[line] : line;
  }
  /// The start of the line with a number that exists.
  [[nodiscard]] __device__ __forceinline__ const T* start(int number) const {
    return number < split ? first + number * stride : second + (number - split) * stride;
  }
};

/// Divides rows of kColumns columns of a block's tile among its threads. A thread has runs of the same columns in every
/// kRowStep-th row. Neighbouring threads share a row.
template <class Tile, int kColumns = Tile::kSide>
struct TileRuns {
  static constexpr int kRun = Tile::kRun;
  static constexpr int kThreadsOfRow = kColumns / kRun;
  static constexpr int kRowStep = Tile::kThreads / kThreadsOfRow;
  static constexpr int kCount = Tile::kRows / kRowStep;

  [[nodiscard]] static __device__ __forceinline__ int row(int i) {
    return static_cast<int>(threadIdx.x) / kThreadsOfRow + i * kRowStep;
  }
  [[nodiscard]] static __device__ __forceinline__ int column() {
    return static_cast<int>(threadIdx.x) % kThreadsOfRow * kRun;
  }
};

}  // namespace strata::cuda
