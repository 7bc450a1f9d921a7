#pragma once

#include "kernels/attention_fragment.cuh"

/// \file
/// Stores from registers to rows in global memory.

namespace strata::cuda {

/// Stores pairs of neighbours. Four lanes fill the 32 bytes of a sector.
template <int RowTiles, int Width>
__device__ __forceinline__ void store_pairs(const MatrixFragment<RowTiles, Width>& values, const HeadRows<float>& rows,
                                            int first) {
  using Fragment = MatrixFragment<RowTiles, Width>;
#pragma unroll
  for (int r = 0; r < Fragment::kRows; ++r) {
    if (first + Fragment::row(r) >= rows.count) continue;
    float* row = rows.row(first + Fragment::row(r));
#pragma unroll
    for (int c = 0; c < Fragment::kColumns; c += 2) {
      const int column = Fragment::column(c);
      if (rows.is_aligned && column < rows.width) {
        store_packed(row + column, Packed<float, 2>{{values.at(r, c), values.at(r, c + 1)}});
      } else {
        if (column < rows.width) row[column] = values.at(r, c);
        if (column + 1 < rows.width) row[column + 1] = values.at(r, c + 1);
      }
    }
  }
}

/// Stores through shared memory, so that each store has 16 bytes. No warp accesses the rows of another warp.
template <class T, int RowTiles, int Width, int Rows>
__device__ __forceinline__ void store_chunks(const MatrixFragment<RowTiles, Width>& values,
                                             const SharedTile<T, Rows, Width>& staging, const HeadRows<T>& rows,
                                             int first) {
  using Fragment = MatrixFragment<RowTiles, Width>;
  using Tile = SharedTile<T, Rows, Width>;
#pragma unroll
  for (int r = 0; r < Fragment::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Fragment::kColumns; c += 2) {
      const Packed<T, 2> pair{{narrow<T>(values.at(r, c)), narrow<T>(values.at(r, c + 1))}};
      store_packed(staging.chunk(Fragment::row(r), c / 2) + 2 * (Fragment::lane() % 4), pair);
    }
  }
  __syncwarp();
  for (int i = Fragment::lane(); i < 16 * RowTiles * Tile::kChunks; i += kWarpSize) {
    const int row = Fragment::first_row() + i / Tile::kChunks;
    const int column = i % Tile::kChunks * Tile::kChunkElements;
    if (first + row >= rows.count || column >= rows.width) continue;
    const Packed<T> chunk = load_packed(staging.chunk(row, i % Tile::kChunks));
    T* to = rows.row(first + row) + column;
    if (rows.is_aligned) {
      store_packed(to, chunk);
    } else {
      for (int j = 0; j < Tile::kChunkElements && column + j < rows.width; ++j) to[j] = chunk[j];
    }
  }
  __syncwarp();
}

/// Stores the block's rows of a result of type f32 or T. `rows_of` returns the rows of a head in it. `staging` is a
/// tile that the block no longer needs.
template <class T, int RowTiles, int Width, int Rows, class RowsOf>
__device__ __forceinline__ void store_result(const MatrixFragment<RowTiles, Width>& values,
                                             const SharedTile<T, Rows, Width>& staging, void* result, bool is_f32,
                                             const RowsOf& rows_of, int first) {
  if (is_f32) {
    store_pairs(values, rows_of(static_cast<float*>(result)), first);
  } else {
    store_chunks(values, staging, rows_of(static_cast<T*>(result)), first);
  }
}

}  // namespace strata::cuda
