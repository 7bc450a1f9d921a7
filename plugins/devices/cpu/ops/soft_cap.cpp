#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

float cap_of(const OpInstance& op) { return static_cast<float>(op.attributes.number("cap")); }

}  // namespace

void register_soft_cap(Registration& registration) {
  add(registration, {"soft_cap", "t", "t"}, []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
    return call(soft_cap_kernels(environment.instruction_set()).of<T>().forward, elements(op.results[0]), cap_of(op),
                Operand<T>{0}, Result<T>{0}, environment.threads());
  });
  add(registration, {"soft_cap_gradient", "tt", "t", true},
      []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
        return call(soft_cap_kernels(environment.instruction_set()).of<T>().gradient, elements(op.results[0]),
                    cap_of(op), Operand<T>{0}, Operand<T>{1}, Result<T>{0}, op.accumulate, environment.threads());
      });
}

}  // namespace strata::cpu
