#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "language/launch.hpp"
#include "launchers/permute.hpp"

namespace strata::cuda {

// Permutations of the dims of tensors.

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

namespace {

constexpr unsigned kLargestGridY = 65535;

template <class From, class To>
constexpr bool has_kernels() {
  return std::is_same_v<From, To> || std::is_same_v<From, float> || std::is_same_v<From, double> ||
         std::is_same_v<To, float>;
}

/// The dims of a permutation except some inner ones.
class OuterDims {
 public:
  OuterDims(const devices::Permutation& permutation, std::size_t without, std::size_t or_without) {
    std::int64_t write_stride = permutation.elements();
    for (std::size_t i = 0; i < permutation.sizes.size(); ++i) {
      const std::int64_t size = permutation.sizes[i];
      write_stride /= size;
      if (i == without || i == or_without) continue;
      count_ *= size;
      append(read_, size, permutation.strides[i]);
      append(write_, size, write_stride);
    }
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const StridedIndex& read() const { return read_; }
  [[nodiscard]] const StridedIndex& write() const { return write_; }

 private:
  static void append(StridedIndex& index, std::int64_t size, std::int64_t stride) {
    index.sizes[index.count] = size;
    index.strides[index.count] = stride;
    ++index.count;
  }

  std::int64_t count_ = 1;
  StridedIndex read_;
  StridedIndex write_;
};

/// True if every offset of an index is a multiple of `length` elements.
bool is_multiple(const StridedIndex& index, int length) {
  return std::all_of(index.strides, index.strides + index.count,
                     [length](std::int64_t stride) { return stride % length == 0; });
}

Geometry rows_geometry(const PermutedRows& shape, int run) {
  constexpr unsigned kThreads = kPermuteThreads;
  constexpr std::int64_t kRunsOfThread = 4;
  const std::int64_t runs = (shape.columns + run - 1) / run;
  unsigned lanes = 1;
  while (lanes < kThreads && lanes < runs) lanes *= 2;
  const unsigned pieces = std::min(blocks_for(runs, lanes * kRunsOfThread), kLargestGridY);
  return {.grid = {blocks_for(shape.rows, kThreads / lanes), pieces}, .block = {lanes, kThreads / lanes}};
}

template <class From, class To>
PermuteFunction permute_by_rows(const PermutedRows& shape, bool accumulate) {
  constexpr int kRun = kRunLength<From, To>;
  const bool has_runs = shape.columns % kRun == 0 && is_multiple(shape.read, kRun);
  return [=](Stream stream, const void* from, void* to) {
    const auto* read = static_cast<const From*>(from);
    auto* write = static_cast<To*>(to);
    if (has_runs && are_aligned(read, write)) {
      launch(permute_rows<From, To, kRun>, rows_geometry(shape, kRun), stream, shape, read, write, accumulate);
    } else {
      launch(permute_rows<From, To, 1>, rows_geometry(shape, 1), stream, shape, read, write, accumulate);
    }
  };
}

template <class From, class To>
PermuteFunction permute_by_tiles(const PermutedMatrices& shape, bool accumulate) {
  constexpr int kRead = kPackedElements<From>;
  constexpr int kWrite = kPackedElements<To>;
  const bool has_runs = shape.rows % kRead == 0 && shape.read_stride % kRead == 0 && is_multiple(shape.read, kRead) &&
                        shape.columns % kWrite == 0 && shape.write_stride % kWrite == 0 &&
                        is_multiple(shape.write, kWrite);
  const std::int64_t tiles = shape.count * PermutedMatrices::tiles(shape.rows) * PermutedMatrices::tiles(shape.columns);
  const Geometry geometry{.grid = {static_cast<unsigned>(tiles)}, .block = {kPermuteThreads}};
  return [=](Stream stream, const void* from, void* to) {
    const auto* read = static_cast<const From*>(from);
    auto* write = static_cast<To*>(to);
    if (has_runs && are_aligned(read, write)) {
      launch(permute_matrices<From, To, kRead, kWrite>, geometry, stream, shape, read, write, accumulate);
    } else {
      launch(permute_matrices<From, To, 1, 1>, geometry, stream, shape, read, write, accumulate);
    }
  };
}

template <class From, class To>
PermuteFunction prepare_permute_of(const devices::Permutation& permutation, bool accumulate) {
  const std::size_t last = permutation.sizes.size() - 1;
  const auto contiguous = static_cast<std::size_t>(
      std::find(permutation.strides.begin(), permutation.strides.end(), 1) - permutation.strides.begin());
  if (permutation.strides[last] == 1) {
    const OuterDims outer(permutation, last, last);
    return permute_by_rows<From, To>({outer.count(), permutation.sizes[last], outer.read()}, accumulate);
  }
  if (contiguous > last || permutation.strides[last] == 0) {
    // Rows of one element.
    const OuterDims outer(permutation, last + 1, last + 1);
    return permute_by_rows<From, To>({outer.count(), 1, outer.read()}, accumulate);
  }
  const OuterDims outer(permutation, contiguous, last);
  PermutedMatrices shape;
  shape.rows = permutation.sizes[contiguous];
  shape.columns = permutation.sizes[last];
  shape.read_stride = permutation.strides[last];
  shape.write_stride = 1;
  for (std::size_t i = contiguous + 1; i <= last; ++i) shape.write_stride *= permutation.sizes[i];
  shape.count = outer.count();
  shape.read = outer.read();
  shape.write = outer.write();
  return permute_by_tiles<From, To>(shape, accumulate);
}

}  // namespace

bool can_permute(DType from, DType to) {
  return with_element(
      from, [&]<class From>() { return with_element(to, [&]<class To>() { return has_kernels<From, To>(); }); });
}

PermuteFunction prepare_permute(const devices::Permutation& permutation, DType from, DType to, bool accumulate) {
  return with_element(from, [&]<class From>() {
    return with_element(to, [&]<class To>() -> PermuteFunction {
      if constexpr (has_kernels<From, To>()) {
        return prepare_permute_of<From, To>(permutation, accumulate);
      } else {
        throw VerificationError("the cuda device cannot permute " + std::string(to_string(from)) + " to " +
                                std::string(to_string(to)));
      }
    });
  });
}

}  // namespace strata::cuda
