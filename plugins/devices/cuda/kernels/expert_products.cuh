#pragma once

#include "kernels/expert_choices.cuh"

/// \file
/// Products of the choices of tokens with the matrices of their experts: in 16 bits by matrix units, in others without.

namespace strata::cuda {

/// c(i, j) = Σ over k of a(i, k) · b(k, j) for a tile of kProductTile rows and columns, of which only `rows` and
/// `columns` exist. Blocks have kProductThreads threads.
template <class T>
inline constexpr int kProductTile = sizeof(T) == 2 ? 64 : 32;
inline constexpr int kProductThreads = 256;

template <class V, class A, class B, class Store>
__device__ __forceinline__ void plain_tile_product(int rows, int columns, std::int64_t depth, const A& a, const B& b,
                                                   const Store& store) {
  constexpr int kTile = kProductTile<V>;
  constexpr int kStep = 16;
  constexpr int kSide = 16;  // threads along rows and columns
  __shared__ V left[kStep][kTile + 1];
  __shared__ V right[kStep][kTile + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % kSide;
  const int y = thread / kSide;
  V sums[2][2] = {};
  for (std::int64_t first = 0; first < depth; first += kStep) {
    for (int i = thread; i < kTile * kStep; i += kProductThreads) {
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

/// The same with factors rounded to T, of 16 bits, and sums in f32. A warp has 16 rows and 32 columns of the tile.
template <class T, class A, class B, class Store>
__device__ __forceinline__ void matrix_tile_product(int rows, int columns, std::int64_t depth, const A& a, const B& b,
                                                    const Store& store) {
  constexpr int kTile = kProductTile<T>;
  constexpr int kStep = 32;
  constexpr int kStride = kStep + 8;  // eight neighbouring rows begin in different banks
  constexpr int kPieces = 4;          // of 8 columns
  alignas(16) __shared__ T left[kTile][kStride];
  alignas(16) __shared__ T right[kTile][kStride];  // by column
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int first_row = thread / kWarpSize % 4 * 16;
  const int first_column = thread / kWarpSize / 4 * 8 * kPieces;
  float sums[kPieces][4] = {};
  for (std::int64_t first = 0; first < depth; first += kStep) {
    for (int i = thread; i < kTile * kStep; i += kProductThreads) {
      const int row = i / kStep;
      const std::int64_t k = first + i % kStep;
      left[row][i % kStep] = narrow<T>(row < rows && k < depth ? a(row, k) : 0.0F);
      right[row][i % kStep] = narrow<T>(row < columns && k < depth ? b(k, row) : 0.0F);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; k += 16) {
      std::uint32_t a_pieces[4];
      ldmatrix_x4(a_pieces, &left[first_row + lane % 16][k + 8 * (lane / 16)]);
#pragma unroll
      for (int pair = 0; pair < kPieces; pair += 2) {
        std::uint32_t b_pieces[4];
        const int column = first_column + 8 * pair + 8 * (lane / 16) + lane % 8;
        ldmatrix_x4(b_pieces, &right[column][k + 8 * (lane / 8 % 2)]);
        const std::uint32_t first_piece[2] = {b_pieces[0], b_pieces[1]};
        const std::uint32_t second_piece[2] = {b_pieces[2], b_pieces[3]};
        mma_m16n8k16<T>(sums[pair], a_pieces, first_piece, sums[pair]);
        mma_m16n8k16<T>(sums[pair + 1], a_pieces, second_piece, sums[pair + 1]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + lane / 4 + 8 * (i / 2);
      const int column = first_column + 8 * piece + 2 * (lane % 4) + i % 2;
      if (row < rows && column < columns) store(row, column, sums[piece][i]);
    }
  }
}

template <class T, class A, class B, class Store>
__device__ __forceinline__ void tile_product(int rows, int columns, std::int64_t depth, const A& a, const B& b,
                                             const Store& store) {
  if constexpr (sizeof(T) == 2) {
    matrix_tile_product<T>(rows, columns, depth, a, b, store);
  } else {
    plain_tile_product<Accumulate<T>>(rows, columns, depth, a, b, store);
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
  const Segment tile = find_tile<kProductTile<T>>(blockIdx.x, shape, choices, round);
  if (tile.end <= tile.begin) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kProductTile<T>;
  const std::int64_t left = columns - first;
  w += tile.expert * columns * depth;
  tile_product<T>(
      static_cast<int>(tile.end - tile.begin), static_cast<int>(left < kProductTile<T> ? left : kProductTile<T>), depth,
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
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kProductTile<T>;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kProductTile<T>;
  const std::int64_t rows_left = rows - first_row;
  const std::int64_t columns_left = columns - first_column;
  const auto token_value = [&](std::int64_t choice, std::int64_t i, std::int64_t width) -> V {
    return widen(of_tokens[choices.token_of[choice] * width + i]);
  };
  const auto round_value = [&](std::int64_t choice, std::int64_t i, std::int64_t width) -> V {
    return of_round[(choice - round.begin) * width + i];
  };
  tile_product<T>(
      static_cast<int>(rows_left < kProductTile<T> ? rows_left : kProductTile<T>),
      static_cast<int>(columns_left < kProductTile<T> ? columns_left : kProductTile<T>), count,
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
