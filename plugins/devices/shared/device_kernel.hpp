#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/kernel.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::devices {

/// The results that a kernel of an op with weights gives, such as a convolution or experts.
enum class Pass : std::uint8_t { forward, input_gradient, weight_gradient };

/// What a kernel is registered with, beside the function that prepares it.
struct DeviceKernel {
  std::string op;
  /// Letters of KernelSignature.
  std::string operands;
  std::string results;
  /// True if the kernel itself adds to its results when the instance asks for it.
  bool accumulates = false;
  /// Why the kernel refuses shapes or attributes. Null: it refuses none.
  std::optional<std::string> (*unsupported)(const OpInstance&) = nullptr;
};

/// The element type of an instance: that of the first operand or result of letter t or r, or else of the first operand.
inline DType element_type(const DeviceKernel& kernel, const OpInstance& op) {
  const std::size_t operand = kernel.operands.find_first_of("tr");
  if (operand != std::string::npos) return op.operands[operand].dtype;
  const std::size_t result = kernel.results.find_first_of("tr");
  return result != std::string::npos ? op.results[result].dtype : op.operands[0].dtype;
}

/// A kernel's definition for devices whose environment is an `Environment`, without runtime and types. It refuses other
/// devices. `device`: the device's name in messages, such as "the cpu device".
///
/// `prepare` does the work that is needed only once, and returns the work of a launch. It is called as prepare(op) or
/// prepare(op, environment), or as a template prepare.operator()<T> of these. T is the C++ type for element_type(),
/// with which `with_element(type, function)` calls a function.
template <class Environment, class Prepare, class WithElement>
KernelDefinition definition_of(const DeviceKernel& kernel, const std::string& device, const Prepare& prepare,
                               const WithElement& with_element) {
  KernelDefinition definition;
  definition.op = kernel.op;
  definition.signature.operands = kernel.operands;
  definition.signature.results = kernel.results;
  definition.signature.accumulates = kernel.accumulates;
  definition.prepare = [=](const OpInstance& op, const KernelEnvironment& any) -> PreparedKernel {
    [[maybe_unused]] const auto& environment = dynamic_cast<const Environment&>(any);
    if constexpr (requires { prepare(op); }) {
      return prepare(op);
    } else if constexpr (requires { prepare(op, environment); }) {
      return prepare(op, environment);
    } else {
      return with_element(element_type(kernel, op), [&]<class T>() -> PreparedKernel {
        if constexpr (requires { prepare.template operator()<T>(op); }) {
          return prepare.template operator()<T>(op);
        } else {
          return prepare.template operator()<T>(op, environment);
        }
      });
    }
  };
  definition.unsupported = [unsupported = kernel.unsupported, device](
                               const OpInstance& op,
                               const KernelEnvironment& environment) -> std::optional<std::string> {
    if (dynamic_cast<const Environment*>(&environment) == nullptr) return "the kernel is made for " + device;
    return unsupported == nullptr ? std::nullopt : unsupported(op);
  };
  return definition;
}

/// A kernel whose launches run an object of the class `Work`, which has run(arguments) and workspace_bytes().
template <class Work, class... Arguments>
PreparedKernel prepared(Arguments&&... arguments) {
  const auto work = std::make_shared<Work>(std::forward<Arguments>(arguments)...);
  return {[work](const KernelArguments& launch) { work->run(launch); }, work->workspace_bytes()};
}

/// An operand or a result of a launch, as an argument of a device's call(). kAbsent stands for a null pointer.
inline constexpr std::size_t kAbsent = ~std::size_t{0};
template <class T>
struct Operand {
  std::size_t number;
};
template <class T>
struct Result {
  std::size_t number;
};

template <class T>
const T* argument(const Operand<T>& operand, const KernelArguments& launch) {
  return operand.number == kAbsent ? nullptr : kernels::in<T>(launch, operand.number);
}
template <class T>
T* argument(const Result<T>& result, const KernelArguments& launch) {
  return result.number == kAbsent ? nullptr : kernels::out<T>(launch, result.number);
}
template <class Value>
const Value& argument(const Value& value, const KernelArguments& /*launch*/) {
  return value;
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
