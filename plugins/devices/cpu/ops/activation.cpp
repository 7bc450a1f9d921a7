#include "kernels/activation.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "cpu_kernel.hpp"
#include "operands.hpp"

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
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {[forward = kernels_of<T>(op, environment).forward, size = elements(op.results[0]),
             threads = environment.threads()](const KernelArguments& arguments) {
      forward(size, in<T>(arguments, 0), out<T>(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {[gradient = kernels_of<T>(op, environment).gradient, size = elements(op.results[0]),
             accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      gradient(size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

PreparedKernel prepare_gated_activation(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {[forward = kernels_of<T>(op, environment).gated_forward, size = elements(op.results[0]),
             threads = environment.threads()](const KernelArguments& arguments) {
      forward(size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_gated_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    return {[gradient = kernels_of<T>(op, environment).gated_gradient, size = elements(op.results[0]),
             accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      gradient(size, in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2), out<T>(arguments, 0),
               out<T>(arguments, 1), accumulate, threads);
    }};
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
