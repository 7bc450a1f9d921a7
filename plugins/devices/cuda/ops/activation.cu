#include "device/cuda_kernel.hpp"
#include "kernels/activation.cuh"
#include "launchers/map_elements.hpp"
#include "ops/activation.hpp"
#include "ops/activation_kinds.hpp"

namespace strata::cuda {

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
