#pragma once

#include "kernels/attention_tile.cuh"
#include "language/recomputed.hpp"

/// \file
/// Matrices that are distributed over the registers of a block's warps, and their products with tiles on tensor cores.

namespace strata::cuda {

/// A matrix with RowTiles · 16 rows per warp, in the layout of mma_m16n8k16's results.
template <int RowTiles, int Columns>
struct MatrixFragment {
  using Real = float;
  static constexpr int kRows = 2 * RowTiles;
  static constexpr int kColumns = Columns / 4;
  /// Number of lanes that share a row. They are neighbours.
  static constexpr int kLanesPerRow = 4;

  float values[RowTiles][Columns / 8][4];

  [[nodiscard]] static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
  /// The warp's first row in the block.
  [[nodiscard]] static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x) / kWarpSize * 16 * RowTiles;
  }
  /// Row or column of the block's matrix that corresponds to the thread's `r` or `c`.
  [[nodiscard]] static __device__ __forceinline__ int row(int r) {
    return first_row() + 16 * (r / 2) + 8 * (r % 2) + lane() / 4;
  }
  [[nodiscard]] static __device__ __forceinline__ int column(int c) { return 8 * (c / 2) + 2 * (lane() % 4) + c % 2; }

  [[nodiscard]] __device__ __forceinline__ float& at(int r, int c) { return values[r / 2][c / 2][2 * (r % 2) + c % 2]; }
  [[nodiscard]] __device__ __forceinline__ float at(int r, int c) const {
    return values[r / 2][c / 2][2 * (r % 2) + c % 2];
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) at(r, c) = 0.0F;
    }
  }
  __device__ __forceinline__ void scale_row(int r, float factor) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) at(r, c) *= factor;
  }
};

/// d += a · b for a pair of neighbouring 8-column pieces, with the pieces of b as ldmatrix_x4 leaves them.
template <class T>
__device__ __forceinline__ void multiply_pair(float (&left)[4], float (&right)[4], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&pieces)[4]) {
  const std::uint32_t left_pieces[2] = {pieces[0], pieces[1]};
  const std::uint32_t right_pieces[2] = {pieces[2], pieces[3]};
  mma_m16n8k16<T>(left, a, left_pieces, left);
  mma_m16n8k16<T>(right, a, right_pieces, right);
}

/// a · bᵀ: the scores of the rows of `a` with the rows of `b`. `a` has as many rows as the block's warps hold.
template <class T, int RowTiles, int Columns, int Rows, int Width>
__device__ __forceinline__ MatrixFragment<RowTiles, Columns> multiply_transposed(
    const SharedTile<T, Rows, Width>& a, const SharedTile<T, Columns, Width>& b) {
  using Fragment = MatrixFragment<RowTiles, Columns>;
  Fragment scores;
  scores.clear();
  const int lane = recomputed(Fragment::lane());
  const int first_row = recomputed(Fragment::first_row());
#pragma unroll
  for (int step = 0; step < Width / 16; ++step) {
    std::uint32_t a_pieces[RowTiles][4];
#pragma unroll
    for (int m = 0; m < RowTiles; ++m) {
      ldmatrix_x4(a_pieces[m], a.chunk(first_row + 16 * m + lane % 16, 2 * step + lane / 16));
    }
#pragma unroll
    for (int n = 0; n < Columns / 16; ++n) {
      std::uint32_t b_pieces[4];
      ldmatrix_x4(b_pieces, b.chunk(16 * n + 8 * (lane / 16) + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
      for (int m = 0; m < RowTiles; ++m) {
        multiply_pair<T>(scores.values[m][2 * n], scores.values[m][2 * n + 1], a_pieces[m], b_pieces);
      }
    }
  }
  return scores;
}

/// sum += a · b, with `a` rounded to T. The layout of a product's result is also that of a left factor.
template <class T, int RowTiles, int Columns, int Width>
__device__ __forceinline__ void multiply_add(MatrixFragment<RowTiles, Width>& sum,
                                             const MatrixFragment<RowTiles, Columns>& a,
                                             const SharedTile<T, Columns, Width>& b) {
  const int lane = recomputed(MatrixFragment<RowTiles, Width>::lane());
#pragma unroll
  for (int step = 0; step < Columns / 16; ++step) {
    std::uint32_t a_pieces[RowTiles][4];
#pragma unroll
    for (int m = 0; m < RowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&piece)[4] = a.values[m][2 * step + i / 2];
        a_pieces[m][i] = pack_pair<T>(piece[2 * (i % 2)], piece[2 * (i % 2) + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < Width / 16; ++n) {
      std::uint32_t b_pieces[4];
      ldmatrix_x4_trans(b_pieces, b.chunk(16 * step + lane % 16, 2 * n + lane / 16));
#pragma unroll
      for (int m = 0; m < RowTiles; ++m) {
        multiply_pair<T>(sum.values[m][2 * n], sum.values[m][2 * n + 1], a_pieces[m], b_pieces);
      }
    }
  }
}

}  // namespace strata::cuda
