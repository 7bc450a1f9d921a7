#include "kernels/elementwise.hpp"

#include <vector>

#include "cpu_kernel.hpp"
#include "operands.hpp"
#include "shared/broadcast.hpp"

namespace strata::cpu {
namespace {

std::optional<std::string> unsupported_add(const OpInstance& op) {
  return devices::unsupported_broadcast(op.operands[0], op.operands[1]);
}

template <class T>
PreparedKernel prepare_add_of(const OpInstance& op, const CpuEnvironment& environment) {
  const ElementwiseKernels<T> kernels = elementwise_kernels(environment.instruction_set()).of<T>();
  const int threads = environment.threads();
  if (op.operands[0].dims == op.operands[1].dims) {
    return {[=, size = elements(op.results[0])](const KernelArguments& arguments) {
      kernels.add(size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), threads);
    }};
  }
  return {[=, shape = devices::broadcast_shape(op.operands[0], op.operands[1])](const KernelArguments& arguments) {
    kernels.add_broadcast(shape, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), threads);
  }};
}

PreparedKernel prepare_add(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() { return prepare_add_of<T>(op, environment); });
}

template <class T>
PreparedKernel prepare_sum_of(const OpInstance& op, const CpuEnvironment& environment) {
  const auto sum = elementwise_kernels(environment.instruction_set()).of<T>().sum;
  const std::int64_t size = elements(op.results[0]);
  std::vector<const T*> inputs(op.operands.size());
  return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) mutable {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = in<T>(arguments, i);
    sum(size, inputs.data(), static_cast<int>(inputs.size()), out<T>(arguments, 0), accumulate, threads);
  }};
}

PreparedKernel prepare_sum(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() { return prepare_sum_of<T>(op, environment); });
}

PreparedKernel prepare_scale_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto scale = elementwise_kernels(environment.instruction_set()).of<T>().scale;
    return {[=, size = elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
      const auto factor = static_cast<float>(arguments.context.loss_scale);
      scale(size, factor, in<T>(arguments, 0), out<T>(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_normalize(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto normalize = elementwise_kernels(environment.instruction_set()).of<T>().normalize;
    const auto epsilon = static_cast<float>(op.attributes.number("epsilon"));
    const BroadcastShape shape = devices::broadcast_shape(op.operands[0], op.operands[1]);
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
      normalize(shape, epsilon, in<T>(arguments, 0), in<float>(arguments, 1), out<T>(arguments, 0), threads);
    }};
  });
}

}  // namespace

void register_elementwise(Registration& registration) {
  registration.add(kernel({"add", "tt", "t", prepare_add, false, unsupported_add}));
  registration.add(kernel({"sum", "t*", "t", prepare_sum, true}));
  registration.add(kernel({"scale_gradient", "t", "t", prepare_scale_gradient}));
  registration.add(kernel({"normalize", "tf", "t", prepare_normalize, false, unsupported_add}));
}

}  // namespace strata::cpu
