#include "kernels/activation.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "cpu_kernel.hpp"
#include "operands.hpp"
#include "shared/activation_kind.hpp"

namespace strata::cpu {
namespace {

std::span<const NamedActivation> activations(InstructionSet instruction_set) {
  const ActivationTable& table = activation_kernels(instruction_set);
  return {table.rows, static_cast<std::size_t>(table.count)};
}

/// The kernels of the op's activation function. There must be some.
const ByElement<ActivationKernels>& kernels_of(const OpInstance& op, InstructionSet instruction_set) {
  const std::string& kind = op.attributes.word("kind");
  const std::span<const NamedActivation> known = activations(instruction_set);
  return std::find_if(known.begin(), known.end(), [&](const NamedActivation& each) { return each.kind == kind; })
      ->kernels;
}

/// Why there are no kernels for the op's activation function. All instruction sets have the same functions.
std::optional<std::string> unsupported_activation(const OpInstance& op) {
  std::vector<std::string> kinds;
  for (const NamedActivation& each : activations(InstructionSet::portable)) kinds.emplace_back(each.kind);
  return devices::unsupported_activation_kind(op, kinds);
}

PreparedKernel prepare_activation(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto forward = kernels_of(op, environment.instruction_set()).of<T>().forward;
    return {[=, size = elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
      forward(size, in<T>(arguments, 0), out<T>(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto gradient = kernels_of(op, environment.instruction_set()).of<T>().gradient;
    const std::int64_t size = elements(op.results[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      gradient(size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

}  // namespace

void register_activation(Registration& registration) {
  registration.add(kernel({"activation", "t", "t", prepare_activation, false, unsupported_activation}));
  registration.add(
      kernel({"activation_gradient", "tt", "t", prepare_activation_gradient, true, unsupported_activation}));
}

}  // namespace strata::cpu
