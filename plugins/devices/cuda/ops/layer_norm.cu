#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/layer_norm.cuh"
#include "kernels/layer_norm_parameter_gradient.cuh"
#include "language/launch.hpp"
#include "launchers/row_teams.hpp"

namespace strata::cuda {
namespace {

PreparedKernel prepare_layer_norm(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const auto epsilon = static_cast<V>(op.attributes.number("epsilon"));
    return {[=](const KernelArguments& arguments) {
      const T* x = in<T>(arguments, 0);
      const V* gain = in<V>(arguments, 1);
      const V* bias = in<V>(arguments, 2);
      T* y = out<T>(arguments, 0);
      with_teams<T>(height, width, are_aligned(x, gain, bias, y), [&]<int kWidth, int kHeld>(const Geometry& geometry) {
        launch(layer_norm_rows<T, kWidth, kHeld>, geometry, arguments.stream, height, width, epsilon, x, gain, bias, y,
               out<V>(arguments, 1), out<V>(arguments, 2));
      });
    }};
  });
}

PreparedKernel prepare_layer_norm_input_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, accumulate = op.accumulate](const KernelArguments& arguments) {
      const T* dy = in<T>(arguments, 0);
      const T* x = in<T>(arguments, 1);
      const V* gain = in<V>(arguments, 2);
      T* dx = out<T>(arguments, 0);
      with_teams<T>(height, width, are_aligned(dy, x, gain, dx), [&]<int kWidth, int kHeld>(const Geometry& geometry) {
        launch(layer_norm_input_gradient_rows<T, kWidth, kHeld>, geometry, arguments.stream, height, width, dy, x, gain,
               in<V>(arguments, 3), in<V>(arguments, 4), dx, accumulate);
      });
    }};
  });
}

PreparedKernel prepare_layer_norm_parameter_gradient(const OpInstance& op, const CudaEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const Slices slices = slices_of<T>(height, width, environment);
    WorkspacePlan workspace;
    const std::int64_t at = workspace.reserve(slices.count * 2 * width * static_cast<std::int64_t>(sizeof(V)));
    const auto launch_both = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
      const T* dy = in<T>(arguments, 0);
      const T* x = in<T>(arguments, 1);
      V* partial = workspace_at<V>(arguments, at);
      const auto launch_slices = [&]<int kWidth>() {
        const Geometry geometry{.grid = {blocks_for(width, kTileColumns<kWidth>), static_cast<unsigned>(slices.count)},
                                .block = {kTileLanes, kTileRows}};
        launch(layer_norm_parameter_gradient_slices<T, kWidth>, geometry, arguments.stream, height, width, slices.rows,
               dy, x, in<V>(arguments, 2), in<V>(arguments, 3), partial);
      };
      const bool packed = width % kPackedElements<T> == 0 && are_aligned(dy, x);
      packed ? launch_slices.template operator()<kPackedElements<T>>() : launch_slices.template operator()<1>();
      launch(layer_norm_parameter_gradient_total<V>,
             {.grid = {blocks_for(width, kTileLanes), 2}, .block = {kTileLanes, kTileRows}}, arguments.stream,
             slices.count, width, partial, out<V>(arguments, 0), out<V>(arguments, 1), accumulate);
    };
    return {launch_both, workspace.bytes()};
  });
}

}  // namespace

void register_layer_norm(Registration& registration) {
  registration.add(kernel({"layer_norm", "tff", "tff", prepare_layer_norm}));
  registration.add(kernel({"layer_norm_input_gradient", "ttfff", "t", prepare_layer_norm_input_gradient, true}));
  registration.add(
      kernel({"layer_norm_parameter_gradient", "ttff", "ff", prepare_layer_norm_parameter_gradient, true}));
}

}  // namespace strata::cuda
