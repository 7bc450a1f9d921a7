#include <algorithm>
#include <span>
#include <vector>

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

std::span<const NamedActivation> activations(InstructionSet instruction_set) {
  const ActivationTable& table = activation_kernels(instruction_set);
  return {table.rows, static_cast<std::size_t>(table.count)};
}

/// The kernels of the op's activation function. There must be some.
template <class T>
const ActivationKernels<T>& kernels_of(const OpInstance& op, const CpuEnvironment& environment) {
  const std::string& kind = op.attributes.word("kind");
  const std::span<const NamedActivation> known = activations(environment.instruction_set());
  return std::find_if(known.begin(), known.end(), [&](const NamedActivation& each) { return each.kind == kind; })
      ->kernels.template of<T>();
}

/// Why there are no kernels for the op's activation function. All instruction sets have the same functions.
std::optional<std::string> unsupported_activation(const OpInstance& op) {
  std::vector<std::string> kinds;
  for (const NamedActivation& each : activations(InstructionSet::portable)) kinds.emplace_back(each.kind);
  return devices::unsupported_activation_kind(op, kinds);
}

PreparedKernel prepare_activation(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(kernels_of<T>(op, environment).forward, elements(op.results[0]), Operand<T>{0}, Result<T>{0},
                environment.threads());
  });
}

PreparedKernel prepare_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(kernels_of<T>(op, environment).gradient, elements(op.results[0]), Operand<T>{0}, Operand<T>{1},
                Result<T>{0}, op.accumulate, environment.threads());
  });
}

PreparedKernel prepare_gated_activation(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(kernels_of<T>(op, environment).gated_forward, elements(op.results[0]), Operand<T>{0}, Operand<T>{1},
                Result<T>{0}, environment.threads());
  });
}

PreparedKernel prepare_gated_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    return call(kernels_of<T>(op, environment).gated_gradient, elements(op.results[0]), Operand<T>{0}, Operand<T>{1},
                Operand<T>{2}, Result<T>{0}, Result<T>{1}, op.accumulate, environment.threads());
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
