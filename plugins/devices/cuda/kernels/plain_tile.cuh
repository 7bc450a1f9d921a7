#pragma once

#include "kernels/tile_lines.cuh"

/// \file
/// Products of matrices by tiles without matrix units, for every type, size and alignment.

namespace strata::cuda {

/// Computes square tiles of a product. Blocks have kThreads threads and kSharedBytes of dynamic shared memory.
template <class T>
struct PlainTile {
  using V = Accumulate<T>;
  static constexpr int kSide = 32;
  static constexpr int kRows = kSide;
  static constexpr int kThreads = 256;
  /// Neighbouring elements that a thread may load and store at once.
  static constexpr int kRun = 1;
  static constexpr int kStride = kSide + 1;
  static constexpr int kDepth = 16;
  static constexpr std::size_t kSharedBytes = sizeof(V) * kStride * (2 * kDepth + kSide);

  /// Σ of left[row, k] · right[k, column] over `depth` terms. \return the tile in shared memory, with kStride elements
  /// in a row. Only `rows` and `columns` of it are computed.
  template <Line kLeft, Line kRight>
  static __device__ __forceinline__ const V* product(const Lines<T>& left, const Lines<T>& right, int depth,
                                                     int /*rows*/, int /*columns*/) {
    constexpr int kThreadsOfRow = 16;
    V* left_values = dynamic_shared<V>();
    V* right_values = left_values + kDepth * kStride;
    V* result = right_values + kDepth * kStride;
    const int thread = static_cast<int>(threadIdx.x);
    const int x = thread % kThreadsOfRow;
    const int y = thread / kThreadsOfRow;
    V sums[2][2] = {};
    for (int first = 0; first < depth; first += kDepth) {
      load<kLeft>(left_values, left, first);
      load<kRight>(right_values, right, first);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            sums[i][j] += left_values[k * kStride + y + i * 16] * right_values[k * kStride + x + j * kThreadsOfRow];
          }
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) result[(y + i * 16) * kStride + x + j * kThreadsOfRow] = sums[i][j];
    }
    __syncthreads();
    return result;
  }

 private:
  /// Loads kDepth terms from `first` on. Those that do not exist are zero. Neighbouring threads load neighbours.
  template <Line kLine>
  static __device__ __forceinline__ void load(V* values, const Lines<T>& lines, int first) {
    for (int i = static_cast<int>(threadIdx.x); i < kSide * kDepth; i += kThreads) {
      const int term = kLine == Line::term ? i / kSide : i % kDepth;
      const int of_result = kLine == Line::term ? i % kSide : i / kDepth;
      const int number = lines.number(kLine == Line::term ? first + term : of_result);
      const int element = kLine == Line::term ? of_result : first + term;
      values[term * kStride + of_result] =
          number >= 0 && element < lines.width ? static_cast<V>(widen(lines.start(number)[element])) : V{0};
    }
  }
};

}  // namespace strata::cuda
