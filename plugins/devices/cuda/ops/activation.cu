#include <optional>
#include <string>
#include <vector>

#include "device/cuda_kernel.hpp"
#include "kernels/activation.cuh"
#include "launchers/map_elements.hpp"
#include "ops/activation.hpp"
#include "strata/error.hpp"

namespace strata::cuda {

template <class Kind>
struct Gate {
  template <class A>
  __device__ __forceinline__ A operator()(A gate, A up) const {
    return Kind::value(gate) * up;
  }
};

template <class Kind>
struct GateSlope {
  template <class A>
  __device__ __forceinline__ A operator()(A dy, A gate, A up) const {
    return dy * up * Kind::derivative(gate);
  }
};

template <class Kind>
struct GateValue {
  template <class A>
  __device__ __forceinline__ A operator()(A dy, A gate) const {
    return dy * Kind::value(gate);
  }
};

namespace {

std::optional<std::string> unsupported_activation(const OpInstance& op) {
  return devices::unsupported_activation_kind(op, names_of(Activations{}));
}

template <class T, class Function, class First, class... Rest>
PreparedKernel with_activation(const OpInstance& op, const Function& function, ActivationList<First, Rest...> /*all*/) {
  if (op.attributes.word("kind") == First::kKind) return function.template operator()<T, First>();
  if constexpr (sizeof...(Rest) > 0) {
    return with_activation<T>(op, function, ActivationList<Rest...>{});
  } else {
    throw ConfigurationError("activation '" + op.name + "': unknown kind '" + op.attributes.word("kind") + "'");
  }
}

/// Calls function.operator()<T, Kind>() with the kernels' types for the op's elements and for its activation.
template <class Function>
PreparedKernel with_types(const OpInstance& op, const Function& function) {
  return with_element(op.operands[0].dtype, [&]<class T>() { return with_activation<T>(op, function, Activations{}); });
}

}  // namespace

PreparedKernel prepare_activation(const OpInstance& op) {
  return with_types(
      op, [&]<class T, class Kind>() -> PreparedKernel { return {map_operands<T, T>(op, Activation<Kind>{})}; });
}

PreparedKernel prepare_activation_gradient(const OpInstance& op) {
  return with_types(op, [&]<class T, class Kind>() -> PreparedKernel {
    return {map_operands<T, T, T>(op, ActivationGradient<Kind>{})};
  });
}

void register_activation(Registration& registration) {
  add(registration, {"activation", "t", "t", true, unsupported_activation}, prepare_activation);
  add(registration, {"activation_gradient", "tt", "t", true, unsupported_activation}, prepare_activation_gradient);
  add(registration, {"gated_activation", "tt", "t", true, unsupported_activation}, [](const OpInstance& op) {
    return with_types(
        op, [&]<class T, class Kind>() -> PreparedKernel { return {map_operands<T, T, T>(op, Gate<Kind>{})}; });
  });
  add(registration, {"gated_activation_gradient", "ttt", "tt", true, unsupported_activation}, [](const OpInstance& op) {
    return with_types(op, [&]<class T, class Kind>() -> PreparedKernel {
      return {[size = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
        const T* dy = in<T>(arguments, 0);
        const T* gate = in<T>(arguments, 1);
        const T* up = in<T>(arguments, 2);
        // The first result may overwrite `up`, and the second one `dy` or `gate`.
        launch_map(arguments.stream, size, accumulate, GateSlope<Kind>{}, out<T>(arguments, 0), dy, gate, up);
        launch_map(arguments.stream, size, accumulate, GateValue<Kind>{}, out<T>(arguments, 1), dy, gate);
      }};
    });
  });
}

}  // namespace strata::cuda
