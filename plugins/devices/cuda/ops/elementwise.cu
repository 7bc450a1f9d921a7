#include <array>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/elementwise.cuh"
#include "launchers/map_elements.hpp"
#include "launchers/reduce_sources.hpp"
#include "launchers/strided_index.hpp"
#include "shared/broadcast.hpp"

namespace strata::cuda {
namespace {

template <class T>
PreparedKernel prepare_add_broadcast(const OpInstance& op) {
  constexpr std::int64_t kRun = kRunLength<T>;
  const devices::BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.operands[1]);
  const BroadcastOperand operand{part_index(shape), shape.present[shape.count - 1]};
  const bool cut_in_runs = shape.sizes[shape.count - 1] % kRun == 0;
  return {[=, size = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
    const T* x = in<T>(arguments, 0);
    const T* y = in<T>(arguments, 1);
    T* z = out<T>(arguments, 0);
    const bool packed = cut_in_runs && are_aligned(x, z) && (!operand.has_columns || is_aligned(y));
    const std::int64_t of_block = kBroadcastThreads * (packed ? kRun : 1);
    launch(add_broadcast<T>, {{blocks_for(size, of_block)}, {kBroadcastThreads}}, arguments.stream, operand, size,
           packed, accumulate, x, y, z);
  }};
}

std::optional<std::string> unsupported_add(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.operands[1]);
}

PreparedKernel prepare_add(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    if (op.operands[0].dims != op.operands[1].dims) return prepare_add_broadcast<T>(op);
    return {map_operands<T, T, T>(op, Add{})};
  });
}

std::optional<std::string> unsupported_sum(const OpInstance& op) {
  const std::size_t sources = op.operands.size() + (op.accumulate ? 1 : 0);
  if (sources <= kMaxReducedSources) return std::nullopt;
  return "adds up to " + std::to_string(kMaxReducedSources) + " tensors, found " + std::to_string(sources);
}

PreparedKernel prepare_sum(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return {[size = elements(op.results[0]), dtype = op.results[0].dtype,
           accumulate = op.accumulate](const KernelArguments& arguments) {
    std::array<const void*, kMaxReducedSources> sources{};
    std::size_t count = 0;
    for (const void* operand : arguments.operands) sources[count++] = operand;
    if (accumulate) sources[count++] = arguments.results[0];
    launch_reduce(arguments.stream, Reduction::sum, dtype, arguments.results[0], {sources.data(), count}, size);
  }};
}

PreparedKernel prepare_scale_gradient(const OpInstance& op, const CudaEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {map_operands<T, T>(op, ScaleByLossScale{environment.step_values()})};
  });
}

PreparedKernel prepare_normalize(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const StridedIndex place = part_index(devices::broadcast_shape(op.operands[0], op.operands[1]));
    return {[=, size = elements(op.results[0]),
             epsilon = op.attributes.number("epsilon")](const KernelArguments& arguments) {
      launch(normalize<T>, {{blocks_for(size, kBroadcastThreads)}, {kBroadcastThreads}}, arguments.stream, place, size,
             epsilon, in<T>(arguments, 0), in<Accumulate<T>>(arguments, 1), out<T>(arguments, 0));
    }};
  });
}

}  // namespace

void register_elementwise(Registration& registration) {
  registration.add(kernel({"add", "tt", "t", prepare_add, true, unsupported_add}));
  registration.add(kernel({"sum", "t*", "t", prepare_sum, true, unsupported_sum}));
  registration.add(kernel({"scale_gradient", "t", "t", prepare_scale_gradient, true}));
  registration.add(kernel({"normalize", "tf", "t", prepare_normalize, false, unsupported_add}));
}

}  // namespace strata::cuda
