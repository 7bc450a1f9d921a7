#pragma once

#include "kernels/attention_shape.cuh"

namespace strata::cuda {

inline constexpr int kLanesPerRowProduct = 8;
inline constexpr int kRowProductThreads = 256;
inline constexpr int kRowsPerRowProductBlock = kRowProductThreads / kLanesPerRowProduct;

/// products[sample, head, query] = o · d_o. Each group of lanes has a row. Neighbouring groups have neighbouring heads,
/// whose rows are adjacent in memory.
template <class T>
__global__ void __launch_bounds__(kRowProductThreads)
    attention_row_product_kernel(const __grid_constant__ AttentionShape shape, const T* o, const T* d_o,
                                 Accumulate<T>* products) {
  constexpr int kPack = kPackedElements<T>;
  const int lane = static_cast<int>(threadIdx.x) % kLanesPerRowProduct;
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerRowProductBlock + threadIdx.x / kLanesPerRowProduct;
  const bool is_there = row < shape.rows();
  const T* output = o + row * shape.width;
  const T* gradient = d_o + row * shape.width;
  Accumulate<T> sum = 0;
  if (is_there && shape.has_aligned_rows) {
    for (int j = lane * kPack; j < shape.width; j += kLanesPerRowProduct * kPack) {
      const Packed<T> left = load_packed(output + j);
      const Packed<T> right = load_packed(gradient + j);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += widen(left[i]) * widen(right[i]);
    }
  } else if (is_there) {
    for (int j = lane; j < shape.width; j += kLanesPerRowProduct) sum += widen(output[j]) * widen(gradient[j]);
  }
  sum = warp_reduce<kLanesPerRowProduct>(sum, Sum{});
  if (!is_there || lane != 0) return;
  const std::int64_t position = row / shape.heads;  // index of (sample, query)
  const int head = static_cast<int>(row % shape.heads);
  const int sample = static_cast<int>(position / shape.queries);
  products[shape.statistics(sample, head) + position % shape.queries] = sum;
}

}  // namespace strata::cuda
