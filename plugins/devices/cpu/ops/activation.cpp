#include "ops/activation.hpp"

namespace strata::cpu {
namespace {

PreparedKernel prepare_activation(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(activation_kernels_of<T>(op, environment).forward, elements(op.results[0]), Operand<T>{0}, Result<T>{0},
                environment.threads());
  });
}

PreparedKernel prepare_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(activation_kernels_of<T>(op, environment).gradient, elements(op.results[0]), Operand<T>{0},
                Operand<T>{1}, Result<T>{0}, op.accumulate, environment.threads());
  });
}

PreparedKernel prepare_gated_activation(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(activation_kernels_of<T>(op, environment).gated_forward, elements(op.results[0]), Operand<T>{0},
                Operand<T>{1}, Result<T>{0}, environment.threads());
  });
}

PreparedKernel prepare_gated_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(activation_kernels_of<T>(op, environment).gated_gradient, elements(op.results[0]), Operand<T>{0},
                Operand<T>{1}, Operand<T>{2}, Result<T>{0}, Result<T>{1}, op.accumulate, environment.threads());
  });
}

}  // namespace

void register_activation(Registration& registration) {
  registration.add(kernel({"activation", "t", "t", prepare_activation, false, unsupported_activation}));
  registration.add(
      kernel({"activation_gradient", "tt", "t", prepare_activation_gradient, true, unsupported_activation}));
  registration.add(kernel({"gated_activation", "tt", "t", prepare_gated_activation, false, unsupported_activation}));
  registration.add(kernel(
      {"gated_activation_gradient", "ttt", "tt", prepare_gated_activation_gradient, true, unsupported_activation}));
}

}  // namespace strata::cpu
