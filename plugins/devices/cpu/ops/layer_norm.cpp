#include "kernels/layer_norm.hpp"

#include "cpu_kernel.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_layer_norm(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto forward = layer_norm_kernels(environment.instruction_set()).of<T>().forward;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const auto epsilon = static_cast<float>(op.attributes.number("epsilon"));
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
      forward(height, width, epsilon, in<T>(arguments, 0), f32(arguments, 1), f32(arguments, 2), out<T>(arguments, 0),
              f32_result(arguments, 1), f32_result(arguments, 2), threads);
    }};
  });
}

PreparedKernel prepare_layer_norm_input_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto input_gradient = layer_norm_kernels(environment.instruction_set()).of<T>().input_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      input_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), f32(arguments, 2), f32(arguments, 3),
                     f32(arguments, 4), out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

PreparedKernel prepare_layer_norm_parameter_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto parameter_gradient = layer_norm_kernels(environment.instruction_set()).of<T>().parameter_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      parameter_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), f32(arguments, 2), f32(arguments, 3),
                         f32_result(arguments, 0), accumulate, f32_result(arguments, 1), accumulate, threads);
    }};
  });
}

}  // namespace

void register_layer_norm(Registration& registration) {
  registration.add(kernel({"layer_norm", "tff", "tff", prepare_layer_norm}));
  registration.add(kernel({"layer_norm_input_gradient", "ttfff", "t", prepare_layer_norm_input_gradient, true}));
  registration.add(
      kernel({"layer_norm_parameter_gradient", "ttff", "ff", prepare_layer_norm_parameter_gradient, true}));
}

}  // namespace strata::cpu
