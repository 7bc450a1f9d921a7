#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "device/dim_index_map.hpp"
#include "device/operands.hpp"
#include "kernels/cross_entropy.cuh"
#include "kernels/row_loss.cuh"
#include "language/launch.hpp"

namespace strata::cuda {
namespace {

/// One block for each row. A long row gives each thread a few runs of 16 bytes.
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

PreparedKernel prepare_row_max(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const std::int64_t width = columns(op.operands[0]);
    return {[=, geometry = blocks_of_rows<T>(rows(op.operands[0]), width)](const KernelArguments& arguments) {
      launch(row_max<T>, geometry, arguments.stream, width, in<T>(arguments, 0), out<Accumulate<T>>(arguments, 0));
    }};
  });
}

PreparedKernel prepare_sum_exponentials(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const std::int64_t width = columns(op.operands[0]);
    return {[=, geometry = blocks_of_rows<T>(rows(op.operands[0]), width)](const KernelArguments& arguments) {
      launch(sum_exponentials<T>, geometry, arguments.stream, width, in<T>(arguments, 0), in<V>(arguments, 1),
             out<V>(arguments, 0));
    }};
  });
}

PreparedKernel prepare_log_sum_exponential(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    return {[size = elements(op.results[0])](const KernelArguments& arguments) {
      launch(log_sum_exponential<V>, threads_of_rows(size), arguments.stream, size, in<V>(arguments, 0),
             in<V>(arguments, 1), out<V>(arguments, 0));
    }};
  });
}

PreparedKernel prepare_pick(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, vocabulary = dim_index_map(op, op.operands[0].dims.back())](const KernelArguments& arguments) {
      launch(pick<T>, threads_of_rows(height), arguments.stream, height, width, vocabulary, in<T>(arguments, 0),
             in<std::int32_t>(arguments, 1), out<Accumulate<T>>(arguments, 0));
    }};
  });
}

PreparedKernel prepare_cross_entropy_sum(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    return {[size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
      launch(cross_entropy_sum<V>, kOneBlock, arguments.stream, size, in<V>(arguments, 0), in<V>(arguments, 1),
             in<std::int32_t>(arguments, 2), out<double>(arguments, 0), accumulate);
    }};
  });
}

PreparedKernel prepare_count_targets(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return {[size = elements(op.operands[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    launch(count_targets, kOneBlock, arguments.stream, size, in<std::int32_t>(arguments, 0), out<double>(arguments, 0),
           accumulate);
  }};
}

PreparedKernel prepare_cross_entropy_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const std::int64_t width = columns(op.operands[0]);
    return {[=, geometry = blocks_of_rows<T>(rows(op.operands[0]), width),
             vocabulary = dim_index_map(op, op.operands[0].dims.back())](const KernelArguments& arguments) {
      launch(cross_entropy_gradient<T>, geometry, arguments.stream, width, vocabulary, in<T>(arguments, 0),
             in<Accumulate<T>>(arguments, 1), in<std::int32_t>(arguments, 2), out<T>(arguments, 0));
    }};
  });
}

}  // namespace

void register_cross_entropy(Registration& registration) {
  registration.add(kernel({"row_max", "t", "f", prepare_row_max}));
  registration.add(kernel({"sum_exponentials", "tf", "f", prepare_sum_exponentials}));
  registration.add(kernel({"log_sum_exponential", "ff", "f", prepare_log_sum_exponential}));
  registration.add(kernel({"pick", "ti", "f", prepare_pick}));
  registration.add(kernel({"cross_entropy_sum", "ffi", "d", prepare_cross_entropy_sum, true}));
  registration.add(kernel({"count_targets", "i", "d", prepare_count_targets, true}));
  registration.add(kernel({"cross_entropy_gradient", "tfi", "t", prepare_cross_entropy_gradient}));
}

}  // namespace strata::cuda
