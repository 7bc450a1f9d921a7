#include <string>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "kernels/activation.cuh"
#include "launchers/map_elements.hpp"
#include "ops/activation.hpp"
#include "shared/activation_kind.hpp"

namespace strata::cuda {
namespace {

template <class... Kinds>
std::vector<std::string> names(ActivationList<Kinds...> /*activations*/) {
  return {Kinds::kKind...};
}

std::optional<std::string> unsupported_activation(const OpInstance& op) {
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

}  // namespace

PreparedKernel prepare_activation(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    const auto prepare = [&]<class Kind>() -> PreparedKernel { return {map_operands<T, T>(op, Activation<Kind>{})}; };
    return with_activation(op, prepare, Activations{});
  });
}

PreparedKernel prepare_activation_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    const auto prepare = [&]<class Kind>() -> PreparedKernel {
      return {map_operands<T, T, T>(op, ActivationGradient<Kind>{})};
    };
    return with_activation(op, prepare, Activations{});
  });
}

void register_activation(Registration& registration) {
  registration.add(kernel({"activation", "t", "t", prepare_activation, true, unsupported_activation}));
  registration.add(
      kernel({"activation_gradient", "tt", "t", prepare_activation_gradient, true, unsupported_activation}));
}

}  // namespace strata::cuda
