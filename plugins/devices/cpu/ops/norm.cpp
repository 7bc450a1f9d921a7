#include "kernels/norm.hpp"

#include "cpu_kernel.hpp"
#include "operands.hpp"

namespace strata::cpu {
namespace {

// With kCentered the norm is layer norm, which has a bias and a mean. Without it, it is RMS norm.

template <bool kCentered>
const ByElement<NormKernels>& kernels_of(const CpuEnvironment& environment) {
  if constexpr (kCentered) return layer_norm_kernels(environment.instruction_set());
  return rms_norm_kernels(environment.instruction_set());
}

/// The statistics of the rows, which are the operands from `first` on.
struct Statistics {
  const float* mean;
  const float* inverse;
};
template <bool kCentered>
Statistics statistics(const KernelArguments& arguments, std::size_t first) {
  if constexpr (kCentered) return {f32(arguments, first), f32(arguments, first + 1)};
  return {nullptr, f32(arguments, first)};
}

template <bool kCentered>
PreparedKernel prepare_norm(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto forward = kernels_of<kCentered>(environment).template of<T>().forward;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const auto epsilon = static_cast<float>(op.attributes.number("epsilon"));
    return {[=, threads = environment.threads()](const KernelArguments& arguments) {
      forward(height, width, epsilon, in<T>(arguments, 0), f32(arguments, 1), kCentered ? f32(arguments, 2) : nullptr,
              out<T>(arguments, 0), kCentered ? f32_result(arguments, 1) : nullptr,
              f32_result(arguments, kCentered ? 2 : 1), threads);
    }};
  });
}

template <bool kCentered>
PreparedKernel prepare_norm_input_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto input_gradient = kernels_of<kCentered>(environment).template of<T>().input_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      const auto [mean, inverse] = statistics<kCentered>(arguments, 3);
      input_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), f32(arguments, 2), mean, inverse,
                     out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

template <bool kCentered>
PreparedKernel prepare_norm_parameter_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto parameter_gradient = kernels_of<kCentered>(environment).template of<T>().parameter_gradient;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      const auto [mean, inverse] = statistics<kCentered>(arguments, 2);
      parameter_gradient(height, width, in<T>(arguments, 0), in<T>(arguments, 1), mean, inverse,
                         f32_result(arguments, 0), kCentered ? f32_result(arguments, 1) : nullptr, accumulate, threads);
    }};
  });
}

}  // namespace

void register_norm(Registration& registration) {
  registration.add(kernel({"layer_norm", "tff", "tff", prepare_norm<true>}));
  registration.add(kernel({"layer_norm_input_gradient", "ttfff", "t", prepare_norm_input_gradient<true>, true}));
  registration.add(
      kernel({"layer_norm_parameter_gradient", "ttff", "ff", prepare_norm_parameter_gradient<true>, true}));
  registration.add(kernel({"rms_norm", "tf", "tf", prepare_norm<false>}));
  registration.add(kernel({"rms_norm_input_gradient", "ttff", "t", prepare_norm_input_gradient<false>, true}));
  registration.add(kernel({"rms_norm_parameter_gradient", "ttf", "f", prepare_norm_parameter_gradient<false>, true}));
}

}  // namespace strata::cpu
