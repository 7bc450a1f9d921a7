#include "kernels/gate.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "cpu_kernel.hpp"
#include "operands.hpp"
#include "shared/activation_kind.hpp"

namespace strata::cpu {
namespace {

std::span<const NamedGate> gates(InstructionSet instruction_set) {
  const GateTable& table = gate_kernels(instruction_set);
  return {table.rows, static_cast<std::size_t>(table.count)};
}

/// The kernels of the op's activation function. There must be some.
const ByElement<GateKernels>& kernels_of_gate(const OpInstance& op, InstructionSet instruction_set) {
  const std::string& kind = op.attributes.word("kind");
  const std::span<const NamedGate> known = gates(instruction_set);
  return std::find_if(known.begin(), known.end(), [&](const NamedGate& each) { return each.kind == kind; })->kernels;
}

/// Why there are no kernels for the op's activation function. All instruction sets have the same functions.
std::optional<std::string> unsupported_gate(const OpInstance& op) {
  std::vector<std::string> kinds;
  for (const NamedGate& each : gates(InstructionSet::portable)) kinds.emplace_back(each.kind);
  return devices::unsupported_activation_kind(op, kinds);
}

PreparedKernel prepare_multiply(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto multiply = product_kernels(environment.instruction_set()).of<T>().multiply;
    const std::int64_t size = elements(op.results[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      multiply(size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), accumulate, threads);
    }};
  });
}

PreparedKernel prepare_gated_activation(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto forward = kernels_of_gate(op, environment.instruction_set()).of<T>().forward;
    return {[=, size = elements(op.results[0]), threads = environment.threads()](const KernelArguments& arguments) {
      forward(size, in<T>(arguments, 0), in<T>(arguments, 1), out<T>(arguments, 0), threads);
    }};
  });
}

PreparedKernel prepare_gated_activation_gradient(const OpInstance& op, const CpuEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const auto gradient = kernels_of_gate(op, environment.instruction_set()).of<T>().gradient;
    const std::int64_t size = elements(op.results[0]);
    return {[=, accumulate = op.accumulate, threads = environment.threads()](const KernelArguments& arguments) {
      gradient(size, in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2), out<T>(arguments, 0),
               out<T>(arguments, 1), accumulate, threads);
    }};
  });
}

}  // namespace

void register_gate(Registration& registration) {
  registration.add(kernel({"multiply", "tt", "t", prepare_multiply, true}));
  registration.add(kernel({"gated_activation", "tt", "t", prepare_gated_activation, false, unsupported_gate}));
  registration.add(
      kernel({"gated_activation_gradient", "ttt", "tt", prepare_gated_activation_gradient, true, unsupported_gate}));
}

}  // namespace strata::cpu
