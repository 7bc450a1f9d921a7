#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

// With kCentered the norm is layer norm, which has a bias and a mean. Without it, it is RMS norm.

/// The number of rows that are normalised, each of which has as many elements as `parameter`.
std::int64_t row_count(const OpInstance& op, const OperandDescription& parameter) {
  return elements(op.operands[0]) / elements(parameter);
}

template <bool kCentered>
const ByElement<NormKernels>& kernels_of(const CpuEnvironment& environment) {
  if constexpr (kCentered) return layer_norm_kernels(environment.instruction_set());
  return rms_norm_kernels(environment.instruction_set());
}

template <bool kCentered>
PreparedKernel prepare_norm(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(kernels_of<kCentered>(environment).template of<T>().forward, row_count(op, op.operands[1]),
                elements(op.operands[1]), static_cast<float>(op.attributes.number("epsilon")), Operand<T>{0},
                Operand<float>{1}, Operand<float>{kCentered ? 2 : kAbsent}, Result<T>{0},
                Result<float>{kCentered ? 1 : kAbsent}, Result<float>{kCentered ? 2 : 1}, environment.threads());
  });
}

template <bool kCentered>
PreparedKernel prepare_norm_input_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(kernels_of<kCentered>(environment).template of<T>().input_gradient, row_count(op, op.operands[2]),
                elements(op.operands[2]), Operand<T>{0}, Operand<T>{1}, Operand<float>{2},
                Operand<float>{kCentered ? 3 : kAbsent}, Operand<float>{kCentered ? 4 : 3}, Result<T>{0}, op.accumulate,
                environment.threads());
  });
}

template <bool kCentered>
PreparedKernel prepare_norm_parameter_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(kernels_of<kCentered>(environment).template of<T>().parameter_gradient, row_count(op, op.results[0]),
                elements(op.results[0]), Operand<T>{0}, Operand<T>{1}, Operand<float>{kCentered ? 2 : kAbsent},
                Operand<float>{kCentered ? 3 : 2}, Result<float>{0}, Result<float>{kCentered ? 1 : kAbsent},
                op.accumulate, environment.threads());
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
