#include "kernels/rms_norm.hpp"

#include "cpu_kernel.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_rms_norm(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto forward = rms_norm_kernels(environment.instruction_set()).of<T>().forward;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const auto epsilon = static_cast<float>(op.attributes.number("epsilon"));
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
      forward(height, width, epsilon, in<T>(arguments, 0), f32(arguments, 1), out<T>(arguments, 0),
              f32_result(arguments, 1), threads);
    }};
  });
}

PreparedKernel prepare_rms_norm_input_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto input_gradient = rms_norm_kernels(environment.instruction_set()).of<T>().input_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      input_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), f32(arguments, 2), f32(arguments, 3),
                     out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

PreparedKernel prepare_rms_norm_parameter_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto parameter_gradient = rms_norm_kernels(environment.instruction_set()).of<T>().parameter_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      parameter_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), f32(arguments, 2),
                         f32_result(arguments, 0), accumulate, threads);
    }};
  });
}

}  // namespace

void register_rms_norm(Registration& registration) {
  registration.add(kernel({"rms_norm", "tf", "tf", prepare_rms_norm}));
  registration.add(kernel({"rms_norm_input_gradient", "ttff", "t", prepare_rms_norm_input_gradient, true}));
  registration.add(kernel({"rms_norm_parameter_gradient", "ttf", "f", prepare_rms_norm_parameter_gradient, true}));
}

}  // namespace strata::cpu
