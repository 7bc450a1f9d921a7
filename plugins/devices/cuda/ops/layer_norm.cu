#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/layer_norm.cuh"
#include "kernels/layer_norm_parameter_gradient.cuh"
#include "language/launch.hpp"

namespace strata::cuda {
namespace {

/// Calls function.operator()<kWidth, kHeld>(geometry) with the values that fit the rows. Rows are read in runs of 16
/// bytes if their alignment allows it.
template <class T, class Function>
void with_teams(std::int64_t rows, std::int64_t columns, bool aligned, const Function& function) {
  constexpr int kWidth = kPackedElements<T>;
  const bool packed = aligned && columns % kWidth == 0;
  const std::int64_t lanes = columns / (packed ? kWidth : 1);
  const unsigned team = kWarpSize * std::max(1U, blocks_for(lanes, kHeldRuns * kWarpSize));
  Geometry geometry{.grid = {static_cast<unsigned>(rows)}, .block = {std::min<unsigned>(team, kLargestTeam)}};
  if (team == kWarpSize) geometry = {.grid = {blocks_for(rows, kWarpTeams)}, .block = {kWarpSize, kWarpTeams}};
  if (team > kLargestTeam) {
    packed ? function.template operator()<kWidth, 0>(geometry) : function.template operator()<1, 0>(geometry);
  } else {
    packed ? function.template operator()<kWidth, kHeldRuns>(geometry)
           : function.template operator()<1, kHeldRuns>(geometry);
  }
}

/// Distribution of rows over the blocks that sum them by columns.
struct Slices {
  std::int64_t count = 1;
  std::int64_t rows = 0;
};

template <class T>
Slices slices_of(std::int64_t rows, std::int64_t columns, const CudaEnvironment& environment) {
  constexpr int kBlocksPerMultiprocessor = 4;
  constexpr std::int64_t kLeastRows = 4 * kTileRows;
  const std::int64_t tiles = blocks_for(columns, kTileColumns<kPackedElements<T>>);
  const std::int64_t wanted = blocks_for(kBlocksPerMultiprocessor * environment.multiprocessors(), tiles);
  const std::int64_t each = std::max<std::int64_t>(blocks_for(rows, wanted), kLeastRows);
  return {std::max<std::int64_t>(blocks_for(rows, each), 1), each};
}

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
