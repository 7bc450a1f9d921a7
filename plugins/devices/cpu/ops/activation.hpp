#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpu_kernel.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {

inline std::span<const NamedActivation> activations(InstructionSet instruction_set) {
  const ActivationTable& table = activation_kernels(instruction_set);
  return {table.rows, static_cast<std::size_t>(table.count)};
}

/// The kernels of the op's activation function. There must be some.
template <class T>
const ActivationKernels<T>& activation_kernels_of(const OpInstance& op, const CpuEnvironment& environment) {
  const std::string& kind = op.attributes.word("kind");
  const std::span<const NamedActivation> known = activations(environment.instruction_set());
  return std::find_if(known.begin(), known.end(), [&](const NamedActivation& each) { return each.kind == kind; })
      ->kernels.template of<T>();
}

/// Why there are no kernels for the op's activation function. All instruction sets have the same functions.
inline std::optional<std::string> unsupported_activation(const OpInstance& op) {
  std::vector<std::string> kinds;
  for (const NamedActivation& each : activations(InstructionSet::portable)) kinds.emplace_back(each.kind);
  return devices::unsupported_activation_kind(op, kinds);
}

}  // namespace strata::cpu
