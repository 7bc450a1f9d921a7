#include "ops/operations.hpp"

namespace strata::cpu {

ComputeKernel prepare_layer_norm(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto forward = environment.library->layer_norm.template of<T>().forward;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const auto epsilon = static_cast<float>(op.attributes.number("epsilon"));
    return {[=, threads = environment.threads](const KernelArguments& arguments) {
      forward(height, width, epsilon, in<T>(arguments, 0), f32(arguments, 1), f32(arguments, 2), out<T>(arguments, 0),
              f32_result(arguments, 1), f32_result(arguments, 2), threads);
    }};
  });
}

ComputeKernel prepare_layer_norm_input_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto input_gradient = environment.library->layer_norm.template of<T>().input_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) {
      input_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), f32(arguments, 2), f32(arguments, 3),
                     f32(arguments, 4), out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

ComputeKernel prepare_layer_norm_parameter_gradient(const OpInstance& op, const Environment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> ComputeKernel {
    const auto parameter_gradient = environment.library->layer_norm.template of<T>().parameter_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads](const KernelArguments& arguments) {
      parameter_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), f32(arguments, 2), f32(arguments, 3),
                         f32_result(arguments, 0), accumulate, f32_result(arguments, 1), accumulate, threads);
    }};
  });
}

}  // namespace strata::cpu
