#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

float cap_of(const OpInstance& op) { return static_cast<float>(op.attributes.number("cap")); }

PreparedKernel prepare_soft_cap(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(soft_cap_kernels(environment.instruction_set()).of<T>().forward, elements(op.results[0]), cap_of(op),
                Operand<T>{0}, Result<T>{0}, environment.threads());
  });
}

PreparedKernel prepare_soft_cap_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(soft_cap_kernels(environment.instruction_set()).of<T>().gradient, elements(op.results[0]), cap_of(op),
                Operand<T>{0}, Operand<T>{1}, Result<T>{0}, op.accumulate, environment.threads());
  });
}

}  // namespace

void register_soft_cap(Registration& registration) {
  registration.add(kernel({"soft_cap", "t", "t", prepare_soft_cap}));
  registration.add(kernel({"soft_cap_gradient", "tt", "t", prepare_soft_cap_gradient, true}));
}

}  // namespace strata::cpu
