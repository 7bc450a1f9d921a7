#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/rms_norm.cuh"
#include "language/launch.hpp"
#include "launchers/row_teams.hpp"

namespace strata::cuda {
namespace {

PreparedKernel prepare_rms_norm(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const auto epsilon = static_cast<V>(op.attributes.number("epsilon"));
    return {[=](const KernelArguments& arguments) {
      const T* x = in<T>(arguments, 0);
      const V* gain = in<V>(arguments, 1);
      T* y = out<T>(arguments, 0);
      with_teams<T>(height, width, are_aligned(x, gain, y), [&]<int kWidth, int kHeld>(const Geometry& geometry) {
        launch(rms_norm_rows<T, kWidth, kHeld>, geometry, arguments.stream, height, width, epsilon, x, gain, y,
               out<V>(arguments, 1));
      });
    }};
  });
}

PreparedKernel prepare_rms_norm_input_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
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
        launch(rms_norm_input_gradient_rows<T, kWidth, kHeld>, geometry, arguments.stream, height, width, dy, x, gain,
               in<V>(arguments, 3), dx, accumulate);
      });
    }};
  });
}

PreparedKernel prepare_rms_norm_parameter_gradient(const OpInstance& op, const CudaEnvironment& environment) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const std::int64_t height = rows(op.operands[0]);
    const std::int64_t width = columns(op.operands[0]);
    const Slices slices = slices_of<T>(height, width, environment);
    WorkspacePlan workspace;
    const std::int64_t at = workspace.reserve(slices.count * width * static_cast<std::int64_t>(sizeof(V)));
    const auto launch_both = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
      const T* dy = in<T>(arguments, 0);
      const T* x = in<T>(arguments, 1);
      V* partial = workspace_at<V>(arguments, at);
      const auto launch_slices = [&]<int kWidth>() {
        const Geometry geometry{.grid = {blocks_for(width, kTileColumns<kWidth>), static_cast<unsigned>(slices.count)},
                                .block = {kTileLanes, kTileRows}};
        launch(rms_norm_parameter_gradient_slices<T, kWidth>, geometry, arguments.stream, height, width, slices.rows,
               dy, x, in<V>(arguments, 2), partial);
      };
      const bool packed = width % kPackedElements<T> == 0 && are_aligned(dy, x);
      packed ? launch_slices.template operator()<kPackedElements<T>>() : launch_slices.template operator()<1>();
      launch(rms_norm_parameter_gradient_total<V>,
             {.grid = {blocks_for(width, kTileLanes)}, .block = {kTileLanes, kTileRows}}, arguments.stream,
             slices.count, width, partial, out<V>(arguments, 0), accumulate);
    };
    return {launch_both, workspace.bytes()};
  });
}

}  // namespace

void register_rms_norm(Registration& registration) {
  registration.add(kernel({"rms_norm", "tf", "tf", prepare_rms_norm}));
  registration.add(kernel({"rms_norm_input_gradient", "ttff", "t", prepare_rms_norm_input_gradient, true}));
  registration.add(kernel({"rms_norm_parameter_gradient", "ttf", "f", prepare_rms_norm_parameter_gradient, true}));
}

}  // namespace strata::cuda
