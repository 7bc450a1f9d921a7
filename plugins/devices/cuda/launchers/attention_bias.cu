#include "kernels/attention_bias.cuh"
#include "kernels/column_tile.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

/// Adds up the blocks' sums of each distance [head, block, distance]. Grid: tiles of distances, heads.
template <class T>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    attention_bias_gradient_kernel(std::int64_t blocks, std::int64_t elements, const Accumulate<T>* sums, void* d_bias,
                                   bool is_f32) {
  using Real = Accumulate<T>;
  const std::int64_t element = std::int64_t{blockIdx.x} * kTileLanes + threadIdx.x;
  const std::int64_t head = blockIdx.y;
  Real sum[1] = {};
  if (element < elements) {
    const Real* from = sums + head * blocks * elements + element;
#pragma unroll 8
    for (std::int64_t block = threadIdx.y; block < blocks; block += kTileRows) sum[0] += from[block * elements];
  }
  const Real total = sum_over_tile_rows(sum);
  if (threadIdx.y != 0 || element >= elements) return;
  const std::int64_t at = head * elements + element;
  if constexpr (!std::is_same_v<T, float>) {
    if (!is_f32) {
      static_cast<T*>(d_bias)[at] = narrow<T>(total);
      return;
    }
  }
  static_cast<float*>(d_bias)[at] = narrow<float>(total);
}

template <class T>
void BiasGradient<T>::launch(const AttentionPlan& plan, const GradientArguments<T>& given, int rows) {
  const AttentionShape& shape = plan.shape();
  const std::int64_t elements = bias_elements(shape);
  const Geometry geometry{.grid = {blocks_for(elements, kTileLanes), static_cast<unsigned>(shape.heads)},
                          .block = {kTileLanes, kTileRows}};
  cuda::launch(attention_bias_gradient_kernel<T>, geometry, given.stream, plan.query_blocks(rows), elements,
               given.bias_sums, given.d_bias, shape.f32_results);
}

template <class T>
std::int64_t BiasGradient<T>::workspace_bytes(const AttentionPlan& plan, int rows) {
  if (!plan.has_bias()) return 0;
  const AttentionShape& shape = plan.shape();
  return shape.heads * plan.query_blocks(rows) * bias_elements(shape) *
         static_cast<std::int64_t>(sizeof(Accumulate<T>));
}

template struct BiasGradient<float>;
template struct BiasGradient<BFloat16>;
template struct BiasGradient<Float16>;
template struct BiasGradient<double>;

}  // namespace strata::cuda
