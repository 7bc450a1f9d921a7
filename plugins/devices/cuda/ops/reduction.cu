#include <algorithm>
#include <utility>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "device/runtime.hpp"
#include "kernels/element_run.cuh"
#include "kernels/strided_index.cuh"
#include "launchers/call.hpp"
#include "shared/broadcast.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/internal/group_runs.hpp"

namespace strata::cuda {

// Sums over some dims of a tensor. Terms are split into chunks that depend only on the shape. The sums of chunks are
// stored side by side and summed by the same kernels, so that results do not depend on timing.

inline constexpr int kSumThreads = 256;
/// Number of threads of a block that share the terms of the same columns.
inline constexpr int kTermThreads = kSumThreads / kWarpSize;

/// Columns per block.
template <class T>
inline constexpr int kColumnTile = kWarpSize* kRunLength<T>;

/// x[terms, outer, columns] -> y[outer, columns]. The dims of `terms` and `outer` may be in any order.
struct ColumnSums {
  StridedIndex terms;
  std::int64_t term_count = 0;
  std::int64_t chunk_terms = 0;
  StridedIndex outer;
  std::int64_t outer_count = 0;
  std::int64_t columns = 0;
};

/// Number of loads in flight if offsets need no division.
inline constexpr int kLoadsAtOnce = 4;

/// sums += N neighbouring columns of every kTermThreads-th term of a range. A term is at x + place(term).
template <int N, int Loads, class A, class T, class Place>
__device__ __forceinline__ void add_terms(const Place& place, std::int64_t begin, std::int64_t end, const T* x,
                                          A (&sums)[N]) {
#pragma unroll Loads
  for (std::int64_t term = begin; term < end; term += kTermThreads) {
    A values[N];
    load_run<N>(x + place(term), values);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += values[i];
  }
}

template <int N, class A, class T>
__device__ __forceinline__ void sum_terms(const StridedIndex& terms, std::int64_t begin, std::int64_t end, const T* x,
                                          A (&sums)[N]) {
  if (terms.count > 1) return add_terms<N, 1>(terms, begin, end, x, sums);
  const std::int64_t stride = terms.count == 0 ? 0 : terms.strides[0];
  add_terms<N, kLoadsAtOnce>([stride](std::int64_t term) { return term * stride; }, begin, end, x, sums);
}

/// Grid: tiles of columns of all outer indices, then chunks of terms. With several chunks, y is [chunks, outer,
/// columns] and is overwritten. `packed`: addresses and strides are multiples of a run.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_columns(ColumnSums shape, bool packed, bool accumulate, const T* x, Accumulate<T>* y) {
  using A = Accumulate<T>;
  constexpr int kRun = kRunLength<T>;
  __shared__ A partial[kTermThreads][kColumnTile<T>];
  const std::int64_t tiles = (shape.columns + kColumnTile<T> - 1) / kColumnTile<T>;
  const std::int64_t outer = blockIdx.x / tiles;
  const std::int64_t tile = blockIdx.x % tiles * kColumnTile<T>;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t begin = blockIdx.y * shape.chunk_terms;
  const std::int64_t end = begin + shape.chunk_terms < shape.term_count ? begin + shape.chunk_terms : shape.term_count;

  const T* from = x + shape.outer(outer) + tile;
  if (packed) {
    A sums[kRun] = {};
    if (tile + lane * kRun < shape.columns) sum_terms(shape.terms, begin + warp, end, from + lane * kRun, sums);
#pragma unroll
    for (int i = 0; i < kRun; ++i) partial[warp][lane * kRun + i] = sums[i];
  } else {
    for (int i = 0; i < kRun; ++i) {
      const int column = i * kWarpSize + lane;
      A sum[1] = {};
      if (tile + column < shape.columns) sum_terms(shape.terms, begin + warp, end, from + column, sum);
      partial[warp][column] = sum[0];
    }
  }
  __syncthreads();

  A* to = y + (blockIdx.y * shape.outer_count + outer) * shape.columns + tile;
  for (int column = static_cast<int>(threadIdx.x); column < kColumnTile<T>; column += kSumThreads) {
    if (tile + column >= shape.columns) continue;
    A sum = accumulate ? to[column] : A{0};
#pragma unroll
    for (int i = 0; i < kTermThreads; ++i) sum += partial[i][column];
    to[column] = sum;
  }
}

/// x[outer, terms, columns] -> y[outer]. The dims of `terms` and `outer` may be in any order.
struct RowSums {
  StridedIndex terms;
  std::int64_t term_count = 0;
  std::int64_t columns = 0;
  StridedIndex outer;
  std::int64_t outer_count = 0;
  std::int64_t chunks = 1;
};

/// The sum of every kWarpSize-th run of a range. A run is at x + place(run).
template <int N, int Loads, class T, class Place>
__device__ __forceinline__ Accumulate<T> sum_runs(const Place& place, std::int64_t begin, std::int64_t end,
                                                  const T* x) {
  Accumulate<T> sums[N] = {};
#pragma unroll Loads
  for (std::int64_t run = begin; run < end; run += kWarpSize) {
    Accumulate<T> values[N];
    load_run<N>(x + place(run), values);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += values[i];
  }
#pragma unroll
  for (int i = 1; i < N; ++i) sums[0] += sums[i];
  return sums[0];
}

/// This lane's part of the sum of one chunk.
template <int N, class T>
__device__ __forceinline__ Accumulate<T> sum_chunk(const RowSums& shape, std::int64_t chunk, int lane, const T* x) {
  const std::int64_t runs_of_term = shape.columns / N;
  const std::int64_t runs = shape.term_count * runs_of_term;
  const std::int64_t chunk_runs = (runs + shape.chunks - 1) / shape.chunks;
  const std::int64_t begin = chunk * chunk_runs;
  const std::int64_t end = begin + chunk_runs < runs ? begin + chunk_runs : runs;
  if (shape.term_count == 1) {
    return sum_runs<N, kLoadsAtOnce>([](std::int64_t run) { return run * N; }, begin + lane, end, x);
  }
  const auto place = [&](std::int64_t run) {
    const auto divisor = static_cast<std::uint64_t>(runs_of_term);
    const auto term = static_cast<std::int64_t>(static_cast<std::uint64_t>(run) / divisor);
    return shape.terms(term) + (run - term * runs_of_term) * N;
  };
  return sum_runs<N, 1>(place, begin + lane, end, x);
}

/// One warp per chunk. With several chunks, y is [outer, chunks] and is overwritten. `packed`: addresses, strides and
/// columns are multiples of a run.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_rows(RowSums shape, bool packed, bool accumulate, const T* x, Accumulate<T>* y) {
  const std::int64_t work = std::int64_t{blockIdx.x} * kTermThreads + threadIdx.x / kWarpSize;
  if (work >= shape.outer_count * shape.chunks) return;
  const std::int64_t outer = work / shape.chunks;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const T* from = x + shape.outer(outer);
  const std::int64_t chunk = work - outer * shape.chunks;
  const Accumulate<T> part =
      packed ? sum_chunk<kRunLength<T>>(shape, chunk, lane, from) : sum_chunk<1>(shape, chunk, lane, from);
  const Accumulate<T> sum = warp_sum(part);
  if (lane == 0) y[work] = accumulate ? y[work] + sum : sum;
}

/// partial[block] = the sum of the squares of every gridDim.x-th tile, in f64.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_squares(std::int64_t size, bool packed, const T* x, double* partial) {
  constexpr int kRun = kRunLength<T>;
  double sum = 0;
  const auto add = [&](const auto& values) {
    for (const auto value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  };
  const std::int64_t first = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kSumThreads;
  const std::int64_t runs = packed ? size / kRun : 0;
#pragma unroll kLoadsAtOnce
  for (std::int64_t run = first; run < runs; run += threads) {
    Accumulate<T> values[kRun];
    load_run<kRun>(x + run * kRun, values);
    add(values);
  }
  for_each_single(runs * kRun, size, [&](std::int64_t i) {
    Accumulate<T> value[1];
    load_run<1>(x + i, value);
    add(value);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// total (+)= weight · Σ x · y, by one block, so that the order of the sum is fixed.
template <class T>
__global__ void dot_products(std::int64_t size, double weight, const T* x, const T* y, double* total, bool accumulate) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    sum += static_cast<double>(widen(x[i])) * static_cast<double>(widen(y[i]));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = (accumulate ? *total : 0.0) + weight * sum;
}

namespace {

using devices::BroadcastShape;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t at_least_one(std::int64_t count) { return std::max<std::int64_t>(count, 1); }

/// Numbers of parallel parts that keep any GPU busy: blocks of column sums, and chunks of row sums with one warp each.
/// They must not depend on the GPU, because they determine the order of additions.
constexpr std::int64_t kWantedBlocks = 512;
constexpr std::int64_t kWantedChunks = 2048;
/// Smallest number of terms for which a chunk is worthwhile.
constexpr std::int64_t kLeastChunkTerms = std::int64_t{8} * kTermThreads;
constexpr std::int64_t kLeastChunkRuns = std::int64_t{8} * kWarpSize;
constexpr std::int64_t kMostChunks = 1 << 15;

/// Sums over dims that do not include the last dim.
template <class T>
class ColumnSum {
 public:
  explicit ColumnSum(const BroadcastShape& shape, std::int64_t most_chunks = kMostChunks) {
    const int last = shape.count - 1;
    sums_.terms = index_along(shape, last, false);
    sums_.term_count = sums_.terms.elements();
    sums_.outer = index_along(shape, last, true);
    sums_.outer_count = sums_.outer.elements();
    sums_.columns = shape.sizes[last];
    blocks_ = sums_.outer_count * divide_up(sums_.columns, kColumnTile<T>);
    most_chunks = std::min({most_chunks, kWantedBlocks / at_least_one(blocks_), sums_.term_count / kLeastChunkTerms});
    sums_.chunk_terms = at_least_one(divide_up(sums_.term_count, at_least_one(most_chunks)));
    chunks_ = at_least_one(divide_up(sums_.term_count, sums_.chunk_terms));
  }

  [[nodiscard]] std::int64_t chunks() const { return chunks_; }
  [[nodiscard]] std::int64_t results() const { return sums_.outer_count * sums_.columns; }

  void run(Stream stream, bool accumulate, const T* x, Accumulate<T>* y) const {
    const bool packed = sums_.columns % kRunLength<T> == 0 && is_aligned(x);
    const Geometry geometry{{static_cast<unsigned>(blocks_), static_cast<unsigned>(chunks_)}, {kSumThreads}};
    launch(sum_columns<T>, geometry, stream, sums_, packed, accumulate, x, y);
  }

 private:
  ColumnSums sums_;
  std::int64_t blocks_ = 0;
  std::int64_t chunks_ = 1;
};

/// Sums over the last dim, and possibly over others.
template <class T>
class RowSum {
 public:
  explicit RowSum(const BroadcastShape& shape, std::int64_t most_chunks = kMostChunks) {
    const int last = shape.count - 1;
    sums_.terms = index_along(shape, last, false);
    sums_.term_count = sums_.terms.elements();
    sums_.columns = shape.sizes[last];
    sums_.outer = index_along(shape, last, true);
    sums_.outer_count = sums_.outer.elements();
    const std::int64_t runs = sums_.term_count * sums_.columns / kRunLength<T>;
    const std::int64_t wanted = kWantedChunks / at_least_one(sums_.outer_count);
    sums_.chunks = at_least_one(std::min({most_chunks, wanted, runs / kLeastChunkRuns}));
  }

  [[nodiscard]] std::int64_t chunks() const { return sums_.chunks; }
  [[nodiscard]] std::int64_t results() const { return sums_.outer_count; }

  void run(Stream stream, bool accumulate, const T* x, Accumulate<T>* y) const {
    const bool packed = sums_.columns % kRunLength<T> == 0 && is_aligned(x);
    const Geometry geometry{{blocks_for(sums_.outer_count * sums_.chunks, kTermThreads)}, {kSumThreads}};
    launch(sum_rows<T>, geometry, stream, sums_, packed, accumulate, x, y);
  }

 private:
  RowSums sums_;
};

/// The shape [outer, last], of which the result has one dim.
BroadcastShape matrix(std::int64_t rows, bool has_rows, std::int64_t columns, bool has_columns) {
  BroadcastShape shape;
  shape.count = 2;
  shape.sizes[0] = rows;
  shape.present[0] = has_rows;
  shape.sizes[1] = columns;
  shape.present[1] = has_columns;
  return shape;
}

/// The sums, and for sums in chunks the sums of the chunks.
template <class T, class First, class Second>
PreparedKernel prepare_two_passes(const OpInstance& op, const First& first, const Second& second) {
  using A = Accumulate<T>;
  if (first.chunks() == 1) {
    return {[=, accumulate = op.accumulate](const KernelArguments& arguments) {
      first.run(arguments.stream, accumulate, in<T>(arguments, 0), out<A>(arguments, 0));
    }};
  }
  WorkspacePlan workspace;
  const std::int64_t offset =
      workspace.reserve(first.chunks() * first.results() * static_cast<std::int64_t>(sizeof(A)));
  const auto run = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
    A* partial = workspace_at<A>(arguments, offset);
    first.run(arguments.stream, false, in<T>(arguments, 0), partial);
    second.run(arguments.stream, accumulate, partial, out<A>(arguments, 0));
  };
  return {run, workspace.bytes()};
}

std::optional<std::string> unsupported_reduce_sum(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.results[0]);
}

/// Squares are summed in f64, so that the norm of a hundred million gradients is exact to the last digits of f32.
template <class T>
class SquareSum {
 public:
  explicit SquareSum(std::int64_t size)
      : size_(size),
        blocks_(std::clamp(divide_up(size, kOfBlock), std::int64_t{1}, 2 * kWantedBlocks)),
        second_(matrix(1, true, blocks_, false), 1) {}

  [[nodiscard]] std::int64_t workspace_bytes() const { return blocks_ * static_cast<std::int64_t>(sizeof(double)); }

  /// `partial`: workspace_bytes() bytes of scratch memory.
  void run(void* stream, bool accumulate, const T* x, double* partial, double* sum) const {
    const Geometry geometry{{static_cast<unsigned>(blocks_)}, {kSumThreads}};
    launch(sum_squares<T>, geometry, stream, size_, is_aligned(x), x, partial);
    second_.run(stream, accumulate, partial, sum);
  }

 private:
  static constexpr std::int64_t kOfBlock = std::int64_t{4} * kSumThreads * kRunLength<T>;

  std::int64_t size_;
  std::int64_t blocks_;
  RowSum<double> second_;
};

constexpr auto kGroupSquares = []<class T>(const OpInstance& op) -> PreparedKernel {
  std::vector<std::pair<GroupRun, SquareSum<T>>> sums;
  std::int64_t scratch = 0;
  for (const GroupRun& each : group_runs(op)) {
    sums.emplace_back(each, SquareSum<T>(each.length));
    scratch = std::max(scratch, sums.back().second.workspace_bytes());
  }
  WorkspacePlan workspace;
  const std::int64_t offset = workspace.reserve(scratch);
  const auto run = [=, size = bytes(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    if (!accumulate) runtime::fill_zero(arguments.stream, arguments.results[0], size);
    for (const auto& [each, sum] : sums) {
      sum.run(arguments.stream, true, in<T>(arguments, 0) + each.begin, workspace_at<double>(arguments, offset),
              out<double>(arguments, 0) + each.group);
    }
  };
  return {run, workspace.bytes()};
};

}  // namespace

void register_reduction(Registration& registration) {
  add(registration, {"reduce_sum", "t", "f", true, unsupported_reduce_sum},
      []<class T>(const OpInstance& op) -> PreparedKernel {
        const BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.results[0]);
        using A = Accumulate<T>;
        if (shape.present[shape.count - 1]) {
          const ColumnSum<T> first(shape);
          return prepare_two_passes<T>(op, first,
                                       ColumnSum<A>(matrix(first.chunks(), false, first.results(), true), 1));
        }
        const RowSum<T> first(shape);
        return prepare_two_passes<T>(op, first, RowSum<A>(matrix(first.results(), true, first.chunks(), false), 1));
      });
  add(registration, {"dot", "tt", "d", true}, []<class T>(const OpInstance& op) {
    return call(dot_products<T>, {{1}, {kSumThreads}}, elements(op.operands[0]), op.attributes.number("weight"),
                Operand<T>{0}, Operand<T>{1}, Result<double>{0}, op.accumulate);
  });
  add(registration, {ops::kSumOfSquares, "t", "d", true}, []<class T>(const OpInstance& op) -> PreparedKernel {
    const SquareSum<T> sum(elements(op.operands[0]));
    WorkspacePlan workspace;
    const std::int64_t offset = workspace.reserve(sum.workspace_bytes());
    const auto run = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
      sum.run(arguments.stream, accumulate, in<T>(arguments, 0), workspace_at<double>(arguments, offset),
              out<double>(arguments, 0));
    };
    return {run, workspace.bytes()};
  });
  add(registration, {ops::kGroupSquares, "t", "d", true}, kGroupSquares);
}

}  // namespace strata::cuda
