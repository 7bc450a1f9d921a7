#include "ops/activation.hpp"

namespace strata::cpu {
void register_activation(Registration& registration) {
  add(registration, {"activation", "t", "t", false, unsupported_activation},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(activation_kernels_of<T>(op, environment).forward, elements(op.results[0]), Operand<T>{0},
                    Result<T>{0}, environment.threads());
      });
  add(registration, {"activation_gradient", "tt", "t", true, unsupported_activation},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(activation_kernels_of<T>(op, environment).gradient, elements(op.results[0]), Operand<T>{0},
                    Operand<T>{1}, Result<T>{0}, op.accumulate, environment.threads());
      });
  add(registration, {"gated_activation", "tt", "t", false, unsupported_activation},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(activation_kernels_of<T>(op, environment).gated_forward, elements(op.results[0]), Operand<T>{0},
                    Operand<T>{1}, Result<T>{0}, environment.threads());
      });
  add(registration, {"gated_activation_gradient", "ttt", "tt", true, unsupported_activation},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(activation_kernels_of<T>(op, environment).gated_gradient, elements(op.results[0]), Operand<T>{0},
                    Operand<T>{1}, Operand<T>{2}, Result<T>{0}, Result<T>{1}, op.accumulate, environment.threads());
      });
}

}  // namespace strata::cpu
