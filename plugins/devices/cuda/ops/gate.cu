#include "device/cuda_kernel.hpp"
#include "kernels/gate.cuh"
#include "launchers/map_elements.hpp"
#include "ops/activation_kinds.hpp"

namespace strata::cuda {
namespace {

PreparedKernel prepare_multiply(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype,
                      [&]<class T>() -> PreparedKernel { return {map_operands<T, T, T>(op, Product{})}; });
}

PreparedKernel prepare_gated_activation(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    const auto prepare = [&]<class Kind>() -> PreparedKernel { return {map_operands<T, T, T>(op, Gate<Kind>{})}; };
    return with_activation(op, prepare, Activations{});
  });
}

/// y (+)= function(x...)
template <class T, class Function, class... Operands>
void map_onto(const KernelArguments& arguments, std::int64_t size, bool accumulate, const Function& function, T* y,
              const Operands*... x) {
  if (accumulate) return launch_map_onto(arguments.stream, size, function, y, x...);
  launch_map(arguments.stream, size, function, y, x...);
}

PreparedKernel prepare_gated_activation_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() {
    const auto prepare = [&]<class Kind>() -> PreparedKernel {
      return {[size = elements(op.results[0]), accumulate = op.accumulate](const KernelArguments& arguments) {
        const T* dy = in<T>(arguments, 0);
        const T* gate = in<T>(arguments, 1);
        const T* up = in<T>(arguments, 2);
        // The first result may overwrite `up`, and the second one `dy` or `gate`.
        map_onto(arguments, size, accumulate, GateSlope<Kind>{}, out<T>(arguments, 0), dy, gate, up);
        map_onto(arguments, size, accumulate, GateValue<Kind>{}, out<T>(arguments, 1), dy, gate);
      }};
    };
    return with_activation(op, prepare, Activations{});
  });
}

}  // namespace

void register_gate(Registration& registration) {
  registration.add(kernel({"multiply", "tt", "t", prepare_multiply, true}));
  registration.add(kernel({"gated_activation", "tt", "t", prepare_gated_activation, true, unsupported_activation}));
  registration.add(kernel(
      {"gated_activation_gradient", "ttt", "tt", prepare_gated_activation_gradient, true, unsupported_activation}));
}

}  // namespace strata::cuda
