#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/cuda_environment.hpp"
#include "kernels/activation.cuh"
#include "shared/activation_kind.hpp"
#include "strata/error.hpp"

namespace strata::cuda {

template <class... Kinds>
std::vector<std::string> names(ActivationList<Kinds...> /*activations*/) {
  return {Kinds::kKind...};
}

inline std::optional<std::string> unsupported_activation(const OpInstance& op) {
  return devices::unsupported_activation_kind(op, names(Activations{}));
}

/// Calls function.operator()<Kind>() with the kernels' type for the op's activation.
template <class Function, class First, class... Rest>
PreparedKernel with_activation(const OpInstance& op, const Function& function, ActivationList<First, Rest...> /*all*/) {
  if (op.attributes.word("kind") == First::kKind) return function.template operator()<First>();
  if constexpr (sizeof...(Rest) > 0) {
    return with_activation(op, function, ActivationList<Rest...>{});
  } else {
    throw ConfigurationError("activation '" + op.name + "': unknown kind '" + op.attributes.word("kind") + "'");
  }
}

}  // namespace strata::cuda
