#pragma once

#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"

/// \file
/// Permutations of the dims of tensors.

namespace strata::cuda {

inline constexpr int kPermuteThreads = 256;

/// Rows that are contiguous in both tensors. In the written tensor, each row directly follows the previous one.
struct PermutedRows {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  /// Maps rows to their start in the tensor that is read.
  StridedIndex read;
};

/// to (+)= from in runs of N. `from`, `to` and the rows of both tensors are aligned to runs. The threads with the same
/// threadIdx.y, in all blocks with the same blockIdx.x, have one row.
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
  std::int64_t read_stride = 0;   ///< from column to column of the tensor that is read, in elements
  std::int64_t write_stride = 0;  ///< from row to row of the written tensor, in elements
  /// Maps matrices to their starts in both tensors.
  std::int64_t count = 1;
  StridedIndex read;
  StridedIndex write;

  /// Number of tiles along a dim of this size.
  static __host__ __device__ std::int64_t tiles(std::int64_t size) { return (size + kTile - 1) / kTile; }
  static constexpr int kTile = 64;
};

/// to (+)= from, one block per tile. Tiles pass through shared memory, so that reads are runs of kRead elements and
/// writes are runs of kWrite elements. All strides and addresses are aligned to these runs.
template <class From, class To, int kRead, int kWrite>
__global__ void __launch_bounds__(kPermuteThreads)
    permute_matrices(PermutedMatrices shape, const From* from, To* to, bool accumulate) {
  using Value = Computed<From, To>;
  constexpr int kTile = PermutedMatrices::kTile;
  // One more than a multiple of the number of banks, so that neighbours along either dim are in different banks.
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
