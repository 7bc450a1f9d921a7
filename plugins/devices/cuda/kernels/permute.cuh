#pragma once

#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"

/// \file
/// Tensors written in another order of their dims than they are read in.

namespace strata::cuda {

inline constexpr int kPermuteThreads = 256;

/// Rows that lie without gaps in both tensors; in the one that is written, one behind the other.
struct PermutedRows {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  /// Where rows begin in the tensor that is read.
  StridedIndex read;
};

/// to (+)= from in runs of N; from, to and both tensors' rows are aligned to them. A row is for threads with the same
/// threadIdx.y, in all blocks with the same blockIdx.x.
template <class From, class To, int N>
__global__ void __launch_bounds__(kPermuteThreads)
    permute_rows(PermutedRows shape, const From* from, To* to, bool accumulate) {
  using Value = Computed<From, To>;
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= shape.rows) return;
  const From* read = from + shape.read(row);
  To* write = to + row * shape.columns;
  const std::int64_t step = std::int64_t{gridDim.y} * blockDim.x * N;
  for (std::int64_t i = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N; i < shape.columns; i += step) {
    Value values[N];
    load_run<N>(read + i, values);
    if (accumulate) {
      Value before[N];
      load_run<N>(write + i, before);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] += before[k];
    }
    store_run<N>(write + i, values);
  }
}

/// Matrices that are read along their rows and written along their columns.
struct PermutedMatrices {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t read_stride = 0;   ///< from column to column of the tensor that is read
  std::int64_t write_stride = 0;  ///< from row to row of the one that is written
  /// Where matrices begin in both.
  std::int64_t count = 1;
  StridedIndex read;
  StridedIndex write;

  /// Tiles along a dim of this size.
  static __host__ __device__ std::int64_t tiles(std::int64_t size) { return (size + kTile - 1) / kTile; }
  static constexpr int kTile = 64;
};

/// to (+)= from; a tile goes through shared memory, so that reads and writes are runs of kRead and kWrite, to which all
/// strides and addresses are aligned. One block for each tile.
template <class From, class To, int kRead, int kWrite>
__global__ void __launch_bounds__(kPermuteThreads)
    permute_matrices(PermutedMatrices shape, const From* from, To* to, bool accumulate) {
  using Value = Computed<From, To>;
  constexpr int kTile = PermutedMatrices::kTile;
  // One more than a multiple of the banks: neighbours along either dim lie in different ones.
  __shared__ Value tile[kTile][kTile + 1];

  const std::int64_t column_tiles = PermutedMatrices::tiles(shape.columns);
  const std::int64_t row_tiles = PermutedMatrices::tiles(shape.rows);
  const std::int64_t block = blockIdx.x;
  const std::int64_t first_column = block % column_tiles * kTile;
  const std::int64_t first_row = block / column_tiles % row_tiles * kTile;
  const std::int64_t matrix = block / column_tiles / row_tiles;
  const From* read = from + shape.read(matrix) + first_row + first_column * shape.read_stride;
  To* write = to + shape.write(matrix) + first_row * shape.write_stride + first_column;
  const std::int64_t rows = shape.rows - first_row;
  const std::int64_t columns = shape.columns - first_column;

#pragma unroll 4
  for (int step = 0; step < kTile * kTile / kRead / kPermuteThreads; ++step) {
    const int i = step * kPermuteThreads + static_cast<int>(threadIdx.x);
    const int row = i % (kTile / kRead) * kRead;
    const int column = i / (kTile / kRead);
    if (row >= rows || column >= columns) continue;
    Value values[kRead];
    load_run<kRead>(read + row + column * shape.read_stride, values);
#pragma unroll
    for (int k = 0; k < kRead; ++k) tile[column][row + k] = values[k];
  }
  __syncthreads();
#pragma unroll 4
  for (int step = 0; step < kTile * kTile / kWrite / kPermuteThreads; ++step) {
    const int i = step * kPermuteThreads + static_cast<int>(threadIdx.x);
    const int column = i % (kTile / kWrite) * kWrite;
    const int row = i / (kTile / kWrite);
    if (row >= rows || column >= columns) continue;
    To* place = write + row * shape.write_stride + column;
    Value values[kWrite];
    if (accumulate) load_run<kWrite>(place, values);
#pragma unroll
    for (int k = 0; k < kWrite; ++k) {
      const Value value = tile[column + k][row];
      values[k] = accumulate ? values[k] + value : value;
    }
    store_run<kWrite>(place, values);
  }
}

}  // namespace strata::cuda
