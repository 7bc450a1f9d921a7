#include <algorithm>
#include <utility>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "device/runtime.hpp"
#include "kernels/reduction.cuh"
#include "language/launch.hpp"
#include "launchers/strided_index.hpp"
#include "shared/broadcast.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/internal/group_runs.hpp"

namespace strata::cuda {
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

PreparedKernel prepare_reduce_sum(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  const BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.results[0]);
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using A = Accumulate<T>;
    if (shape.present[shape.count - 1]) {
      const ColumnSum<T> first(shape);
      return prepare_two_passes<T>(op, first, ColumnSum<A>(matrix(first.chunks(), false, first.results(), true), 1));
    }
    const RowSum<T> first(shape);
    return prepare_two_passes<T>(op, first, RowSum<A>(matrix(first.results(), true, first.chunks(), false), 1));
  });
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

PreparedKernel prepare_sum_of_squares(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const SquareSum<T> sum(elements(op.operands[0]));
    WorkspacePlan workspace;
    const std::int64_t offset = workspace.reserve(sum.workspace_bytes());
    const auto run = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
      sum.run(arguments.stream, accumulate, in<T>(arguments, 0), workspace_at<double>(arguments, offset),
              out<double>(arguments, 0));
    };
    return {run, workspace.bytes()};
  });
}

PreparedKernel prepare_group_squares(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
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
  });
}

}  // namespace

void register_reduction(Registration& registration) {
  registration.add(kernel({"reduce_sum", "t", "f", prepare_reduce_sum, true, unsupported_reduce_sum}));
  registration.add(kernel({ops::kSumOfSquares, "t", "d", prepare_sum_of_squares, true}));
  registration.add(kernel({ops::kGroupSquares, "t", "d", prepare_group_squares, true}));
}

}  // namespace strata::cuda
