#pragma once

#include "language/language.hpp"

/// \file
/// Sums over rows. A block has kTileLanes runs of neighbouring columns. Its kTileRows warps take rows in turn.

namespace strata::cuda {

inline constexpr int kTileLanes = kWarpSize;
inline constexpr int kTileRows = 8;
/// Columns of a tile.
template <int kWidth>
inline constexpr int kTileColumns = kTileLanes* kWidth;

/// Sums the partial sums of the block's warps for each column, in the order of the warps. All threads take part. The
/// first kTileColumns threads get the sum of the column of their number, the others get 0.
template <int kWidth, class V>
__device__ __forceinline__ V sum_over_tile_rows(const V (&of_thread)[kWidth]) {
  static_assert(kTileColumns<kWidth> <= kTileLanes * kTileRows);
  // With this stride, lanes write neighbours and read neighbouring columns from different banks.
  constexpr int kStride = kTileLanes + kTileLanes / kWidth;
  __shared__ V partial[kTileRows][kWidth * kStride];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) partial[threadIdx.y][i * kStride + threadIdx.x] = of_thread[i];
  __syncthreads();
  V sum = 0;
  const int column = thread_rank();
  if (column < kTileColumns<kWidth>) {
    const int place = column % kWidth * kStride + column / kWidth;
#pragma unroll
    for (int row = 0; row < kTileRows; ++row) sum += partial[row][place];
  }
  __syncthreads();
  return sum;
}

}  // namespace strata::cuda
