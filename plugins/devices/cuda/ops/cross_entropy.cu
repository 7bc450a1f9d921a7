#include <algorithm>

#include "device/dim_index_map.hpp"
#include "kernels/cross_entropy.cuh"
#include "kernels/row_loss.cuh"
#include "language/launch.hpp"
#include "ops/operations.hpp"

namespace strata::cuda {
namespace {

/// A block for each row: with a few runs of 16 bytes for each thread, where a row has as many.
template <class T>
Geometry blocks_of_rows(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kRunsOfThread = 4;
  const unsigned warps = blocks_for(columns, kRunsOfThread * kPackedElements<T> * kWarpSize);
  return {.grid = {static_cast<unsigned>(rows)},
          .block = {std::clamp<unsigned>(warps * kWarpSize, kWarpSize, kWideRowThreads)}};
}

Geometry threads_of_rows(std::int64_t rows) {
  return {.grid = {blocks_for(rows, kRowLossThreads)}, .block = {kRowLossThreads}};
}

constexpr Geometry kOneBlock = {.grid = {}, .block = {kTotalThreads}};

}  // namespace

PreparedOp prepare_row_max(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    const std::int64_t width = columns(op.operands[0]);
    return {[=, geometry = blocks_of_rows<T>(rows(op.operands[0]), width)](const KernelArguments& arguments,
                                                                           Stream stream) {
      launch(row_max<T>, geometry, stream, width, in<T>(arguments, 0), out<Accumulate<T>>(arguments, 0));
    }};
  });
}

PreparedOp prepare_sum_exponentials(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    using V = Accumulate<T>;
    const std::int64_t width = columns(op.operands[0]);
    return {[=, geometry = blocks_of_rows<T>(rows(op.operands[0]), width)](const KernelArguments& arguments,
                                                                           Stream stream) {
      launch(sum_exponentials<T>, geometry, stream, width, in<T>(arguments, 0), in<V>(arguments, 1),
             out<V>(arguments, 0));
    }};
  });
}

PreparedOp prepare_log_sum_exponential(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    using V = Accumulate<T>;
    return {[size = elements(op.results[0])](const KernelArguments& arguments, Stream stream) {
      launch(log_sum_exponential<V>, threads_of_rows(size), stream, size, in<V>(arguments, 0), in<V>(arguments, 1),
             out<V>(arguments, 0));
    }};
  });
}

PreparedOp prepare_pick(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, vocabulary = dim_index_map(op, op.operands[0].dims.back())](const KernelArguments& arguments,
                                                                            Stream stream) {
      launch(pick<T>, threads_of_rows(height), stream, height, width, vocabulary, in<T>(arguments, 0),
             in<std::int32_t>(arguments, 1), out<Accumulate<T>>(arguments, 0));
    }};
  });
}

PreparedOp prepare_cross_entropy_sum(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    using V = Accumulate<T>;
    return {
        [size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
          launch(cross_entropy_sum<V>, kOneBlock, stream, size, in<V>(arguments, 0), in<V>(arguments, 1),
                 in<std::int32_t>(arguments, 2), out<double>(arguments, 0), accumulate);
        }};
  });
}

PreparedOp prepare_count_targets(const OpInstance& op, const Environment& /*environment*/) {
  return {
      [size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
        launch(count_targets, kOneBlock, stream, size, in<std::int32_t>(arguments, 0), out<double>(arguments, 0),
               accumulate);
      }};
}

PreparedOp prepare_cross_entropy_gradient(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    const std::int64_t width = columns(op.operands[0]);
    return {
        [=, geometry = blocks_of_rows<T>(rows(op.operands[0]), width),
         vocabulary = dim_index_map(op, op.operands[0].dims.back())](const KernelArguments& arguments, Stream stream) {
          launch(cross_entropy_gradient<T>, geometry, stream, width, vocabulary, in<T>(arguments, 0),
                 in<Accumulate<T>>(arguments, 1), in<std::int32_t>(arguments, 2), out<T>(arguments, 0));
        }};
  });
}

}  // namespace strata::cuda
