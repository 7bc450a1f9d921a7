#pragma once

#include "kernels/expert_choices.cuh"

/// \file
/// Products of the choices of tokens with the matrices of their experts. They compute without matrix units.

namespace strata::cuda {

/// c(i, j) = Σ over k of a(i, k) · b(k, j) for a tile of kProductTile rows and columns, of which only `rows` and
/// `columns` exist. Blocks have kProductThreads threads.
inline constexpr int kProductTile = 32;
inline constexpr int kProductThreads = 256;

template <class V, class A, class B, class Store>
__device__ __forceinline__ void tile_product(int rows, int columns, std::int64_t depth, const A& a, const B& b,
                                             const Store& store) {
  constexpr int kStep = 16;
  constexpr int kSide = 16;  // threads along rows and columns
  __shared__ V left[kStep][kProductTile + 1];
  __shared__ V right[kStep][kProductTile + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % kSide;
  const int y = thread / kSide;
  V sums[2][2] = {};
  for (std::int64_t first = 0; first < depth; first += kStep) {
    for (int i = thread; i < kProductTile * kStep; i += kProductThreads) {
      const int row = i / kStep;
      const std::int64_t k = first + i % kStep;
      left[i % kStep][row] = row < rows && k < depth ? a(row, k) : V{0};
      right[i % kStep][row] = row < columns && k < depth ? b(k, row) : V{0};
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) sums[i][j] += left[k][y + i * kSide] * right[k][x + j * kSide];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (y + i * kSide < rows && x + j * kSide < columns) store(y + i * kSide, x + j * kSide, sums[i][j]);
    }
  }
}

/// The lines of the matrix by which a row is multiplied.
enum class Side : std::uint8_t {
  rows,    ///< out[i] = Σ_k a[k] · w[i, k]
  columns  ///< out[i] = Σ_k a[k] · w[k, i]
};

/// out[row, i] for the rows of a round, each with the matrix w[expert] of `columns` results and `depth` terms. Rows are
/// those of the tokens in x, or in a buffer of the round.
template <class T, class A, bool kOfTokens, Side kSide>
__global__ void __launch_bounds__(kProductThreads)
    multiply_rows(ExpertShape shape, Choices choices, Round round, std::int64_t columns, std::int64_t depth, const A* a,
                  const T* w, Accumulate<T>* out, bool accumulate) {
  using V = Accumulate<T>;
  const Segment tile = find_tile<kProductTile>(blockIdx.x, shape, choices, round);
  if (tile.end <= tile.begin) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kProductTile;
  const std::int64_t left = columns - first;
  w += tile.expert * columns * depth;
  tile_product<V>(
      static_cast<int>(tile.end - tile.begin), static_cast<int>(left < kProductTile ? left : kProductTile), depth,
      [&](int row, std::int64_t k) -> V {
        const std::int64_t choice = tile.begin + row;
        return widen(a[(kOfTokens ? choices.token_of[choice] : choice - round.begin) * depth + k]);
      },
      [&](std::int64_t k, int i) -> V {
        return widen(kSide == Side::rows ? w[(first + i) * depth + k] : w[k * columns + first + i]);
      },
      [&](int row, int i, V sum) {
        V& to = out[(tile.begin + row - round.begin) * columns + first + i];
        to = accumulate ? to + sum : sum;
      });
}

/// dw[expert, i, j] = Σ over the expert's choices in the round of left[choice, i] · right[choice, j]. One of the two is
/// a row of a token, and the other one a row of the round.
template <class T, class R, bool kLeftOfTokens>
__global__ void __launch_bounds__(kProductThreads)
    sum_outer_products(Choices choices, Round round, std::int64_t rows, std::int64_t columns, const T* of_tokens,
                       const Accumulate<T>* of_round, R* dw, bool accumulate) {
  using V = Accumulate<T>;
  const Segment segment = segment_of(static_cast<int>(blockIdx.z), choices, round);
  const std::int64_t count = segment.end > segment.begin ? segment.end - segment.begin : 0;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kProductTile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kProductTile;
  const std::int64_t rows_left = rows - first_row;
  const std::int64_t columns_left = columns - first_column;
  const auto token_value = [&](std::int64_t choice, std::int64_t i, std::int64_t width) -> V {
    return widen(of_tokens[choices.token_of[choice] * width + i]);
  };
  const auto round_value = [&](std::int64_t choice, std::int64_t i, std::int64_t width) -> V {
    return of_round[(choice - round.begin) * width + i];
  };
  tile_product<V>(
      static_cast<int>(rows_left < kProductTile ? rows_left : kProductTile),
      static_cast<int>(columns_left < kProductTile ? columns_left : kProductTile), count,
      [&](int i, std::int64_t k) -> V {
        return kLeftOfTokens ? token_value(segment.begin + k, first_row + i, rows)
                             : round_value(segment.begin + k, first_row + i, rows);
      },
      [&](std::int64_t k, int j) -> V {
        return kLeftOfTokens ? round_value(segment.begin + k, first_column + j, columns)
                             : token_value(segment.begin + k, first_column + j, columns);
      },
      [&](int i, int j, V sum) {
        R& to = dw[(segment.expert * rows + first_row + i) * columns + first_column + j];
        to = narrow<R>(accumulate ? widen(to) + sum : sum);
      });
}

}  // namespace strata::cuda
