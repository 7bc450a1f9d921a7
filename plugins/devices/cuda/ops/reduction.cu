#include <algorithm>

#include "kernels/reduction.cuh"
#include "language/launch.hpp"
#include "ops/operations.hpp"
#include "ops/strided_index.hpp"
#include "shared/broadcast.hpp"

namespace strata::cuda {
namespace {

using devices::BroadcastShape;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t at_least_one(std::int64_t count) { return std::max<std::int64_t>(count, 1); }

/// What keeps any GPU busy: blocks of column sums, and chunks, a warp each, of row sums. They must not depend on the
/// GPU because the order of additions depends on them.
constexpr std::int64_t kWantedBlocks = 512;
constexpr std::int64_t kWantedChunks = 2048;
/// Fewer terms are not worth sums of their own.
constexpr std::int64_t kLeastChunkTerms = std::int64_t{8} * kTermThreads;
constexpr std::int64_t kLeastChunkRuns = std::int64_t{8} * kWarpSize;
constexpr std::int64_t kMostChunks = 1 << 15;

/// Sums that leave the last dim.
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

/// Sums over the last dim, and maybe others.
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

/// [outer, last], of which the result has one.
BroadcastShape matrix(std::int64_t rows, bool has_rows, std::int64_t columns, bool has_columns) {
  BroadcastShape shape;
  shape.count = 2;
  shape.sizes[0] = rows;
  shape.present[0] = has_rows;
  shape.sizes[1] = columns;
  shape.present[1] = has_columns;
  return shape;
}

/// The sums, and where they come in chunks the sums of these.
template <class T, class First, class Second>
PreparedOp prepare_two_passes(const OpInstance& op, const First& first, const Second& second) {
  using A = Accumulate<T>;
  if (first.chunks() == 1) {
    return {[=, accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
      first.run(stream, accumulate, in<T>(arguments, 0), out<A>(arguments, 0));
    }};
  }
  WorkspacePlan workspace;
  const std::int64_t offset =
      workspace.reserve(first.chunks() * first.results() * static_cast<std::int64_t>(sizeof(A)));
  const auto run = [=, accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
    A* partial = workspace_at<A>(arguments, offset);
    first.run(stream, false, in<T>(arguments, 0), partial);
    second.run(stream, accumulate, partial, out<A>(arguments, 0));
  };
  return {run, workspace.bytes()};
}

}  // namespace

std::optional<std::string> unsupported_reduce_sum(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.results[0]);
}

PreparedOp prepare_reduce_sum(const OpInstance& op, const Environment& /*environment*/) {
  const BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.results[0]);
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    using A = Accumulate<T>;
    if (shape.present[shape.count - 1]) {
      const ColumnSum<T> first(shape);
      return prepare_two_passes<T>(op, first, ColumnSum<A>(matrix(first.chunks(), false, first.results(), true), 1));
    }
    const RowSum<T> first(shape);
    return prepare_two_passes<T>(op, first, RowSum<A>(matrix(first.results(), true, first.chunks(), false), 1));
  });
}

/// Squares are added up in f64: the norm of a hundred million gradients is exact to the last digits of f32.
PreparedOp prepare_sum_of_squares(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    const std::int64_t size = elements(op.operands[0]);
    const std::int64_t of_block = std::int64_t{4} * kSumThreads * kRunLength<T>;
    const std::int64_t blocks = std::clamp(divide_up(size, of_block), std::int64_t{1}, 2 * kWantedBlocks);
    const RowSum<double> second(matrix(1, true, blocks, false), 1);
    WorkspacePlan workspace;
    const std::int64_t offset = workspace.reserve(blocks * static_cast<std::int64_t>(sizeof(double)));
    const auto run = [=, accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
      const T* x = in<T>(arguments, 0);
      double* partial = workspace_at<double>(arguments, offset);
      const Geometry geometry{{static_cast<unsigned>(blocks)}, {kSumThreads}};
      launch(sum_squares<T>, geometry, stream, size, is_aligned(x), x, partial);
      second.run(stream, accumulate, partial, out<double>(arguments, 0));
    };
    return {run, workspace.bytes()};
  });
}

}  // namespace strata::cuda
