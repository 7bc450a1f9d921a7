#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/kernel.hpp"

namespace strata::devices {

/// The results that a kernel of an op with weights gives, such as a convolution or experts.
enum class Pass : std::uint8_t { forward, input_gradient, weight_gradient };

/// A kernel for devices whose environment is an `Environment`.
template <class Environment>
struct DeviceKernel {
  std::string op;
  /// Letters of KernelSignature.
  std::string operands;
  std::string results;
  /// Does the work that is needed only once. \return the work of a launch.
  PreparedKernel (*prepare)(const OpInstance&, const Environment&) = nullptr;
  /// True if the kernel itself adds to its results when the instance asks for it.
  bool accumulates = false;
  /// Why the kernel refuses shapes or attributes. Null: it refuses none.
  std::optional<std::string> (*unsupported)(const OpInstance&) = nullptr;
};

/// The kernel's definition, without runtime and types. It refuses devices with another environment. `device`: the
/// device's name in messages, such as "the cpu device".
template <class Environment>
KernelDefinition definition_of(DeviceKernel<Environment> kernel, const std::string& device) {
  KernelDefinition definition;
  definition.op = std::move(kernel.op);
  definition.signature.operands = std::move(kernel.operands);
  definition.signature.results = std::move(kernel.results);
  definition.signature.accumulates = kernel.accumulates;
  definition.prepare = [prepare = kernel.prepare](const OpInstance& op, const KernelEnvironment& environment) {
    return prepare(op, dynamic_cast<const Environment&>(environment));
  };
  definition.unsupported = [unsupported = kernel.unsupported, device](
                               const OpInstance& op,
                               const KernelEnvironment& environment) -> std::optional<std::string> {
    if (dynamic_cast<const Environment*>(&environment) == nullptr) return "the kernel is made for " + device;
    return unsupported == nullptr ? std::nullopt : unsupported(op);
  };
  return definition;
}

/// Why a device with kernels for the functions `known` cannot compute the op's activation. Empty if it can.
inline std::optional<std::string> unsupported_activation_kind(const OpInstance& op,
                                                              const std::vector<std::string>& known) {
  const std::string& kind = op.attributes.word("kind");
  if (contains(known, kind)) return std::nullopt;
  return "has no kernel for '" + kind + "'; accepted: " + join(known, ", ");
}

/// Why kernels of attention and of its gradient cannot have results of the op's types. Empty if they can.
inline std::optional<std::string> unsupported_attention_types(const OpInstance& op) {
  for (const OperandDescription& result : op.results) {
    const bool fits = result.dtype == op.results[0].dtype || (op.op == "attention" && &result == &op.results[1]);
    if (fits && (result.dtype == DType::f32 || result.dtype == op.operands[0].dtype)) continue;
    return "results cannot be " + std::string(to_string(result.dtype)) + " where operands are " +
           std::string(to_string(op.operands[0].dtype));
  }
  return std::nullopt;
}

}  // namespace strata::devices
