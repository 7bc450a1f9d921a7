#include <algorithm>
#include <bit>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/element_run.cuh"
#include "language/launch.hpp"

namespace strata::cuda {

inline constexpr int kMergeThreads = 256;

/// Shape of o[batch, sequence, heads, head_dim] and of its log-sum-exp l[batch, heads, sequence].
struct AttentionOutputShape {
  int batch = 0;
  int sequence = 0;
  int heads = 0;
  int head_dim = 0;
};

/// The weights of two outputs, and the log-sum-exp of both.
template <class V>
struct MergeWeights {
  V first = 0;
  V second = 0;
  V log_sum = -static_cast<V>(INFINITY);
};

template <class V>
__device__ __forceinline__ MergeWeights<V> merge_weights(V first, V second) {
  const V largest = first > second ? first : second;
  if (largest == -static_cast<V>(INFINITY)) return {};
  const V a = std::exp(first - largest);
  const V b = std::exp(second - largest);
  return {a / (a + b), b / (a + b), largest + std::log(a + b)};
}

/// Merges attention to two disjoint sets of keys into attention to both. A query that sees no key has o = 0. o may
/// alias o1, and l may alias l1. Grid: rows (query, head), batch. The threads along x share a row; their number is a
/// power of two of at most a warp.
template <class V, int kWidth>
__global__ void __launch_bounds__(kMergeThreads)
    attention_merge(AttentionOutputShape shape, const V* o1, const V* l1, const V* o2, const V* l2, V* o, V* l) {
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  const unsigned heads = static_cast<unsigned>(shape.heads);
  const unsigned query = row / heads;
  const unsigned head = row % heads;
  const bool has_row = query < static_cast<unsigned>(shape.sequence);
  const std::int64_t batch = blockIdx.y;
  const std::int64_t log_sum_at = (batch * shape.heads + head) * shape.sequence + query;
  MergeWeights<V> weights;
  if (has_row) weights = merge_weights(l1[log_sum_at], l2[log_sum_at]);
  __syncwarp();  // l may alias l1: all threads of the row have read it
  if (!has_row) return;
  if (threadIdx.x == 0) l[log_sum_at] = weights.log_sum;

  const std::int64_t begin = ((batch * shape.sequence + query) * shape.heads + head) * shape.head_dim;
  const int step = static_cast<int>(blockDim.x) * kWidth;
  for (int column = static_cast<int>(threadIdx.x) * kWidth; column < shape.head_dim; column += step) {
    V a[kWidth];
    V b[kWidth];
    load_run<kWidth>(o1 + begin + column, a);
    load_run<kWidth>(o2 + begin + column, b);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) a[i] = weights.first * a[i] + weights.second * b[i];
    store_run<kWidth>(o + begin + column, a);
  }
}

namespace {

AttentionOutputShape shape_of_merge(const OpInstance& op) {
  const Shape& output = op.operands[0].shape;
  std::int64_t heads = 1;
  for (std::size_t i = 2; i + 1 < output.size(); ++i) heads *= output[i];
  return {.batch = static_cast<int>(output[0]),
          .sequence = static_cast<int>(output[1]),
          .heads = static_cast<int>(heads),
          .head_dim = static_cast<int>(output.back())};
}

/// Uses as many threads for a row as the row has runs, rounded to a power of two of at most a warp.
Geometry geometry_of_merge(const AttentionOutputShape& shape, int runs) {
  const unsigned lanes = std::bit_ceil(static_cast<unsigned>(std::clamp(runs, 1, kWarpSize)));
  const unsigned rows_of_block = kMergeThreads / lanes;
  return {.grid = {blocks_for(std::int64_t{shape.sequence} * shape.heads, rows_of_block),
                   static_cast<unsigned>(shape.batch)},
          .block = {lanes, rows_of_block}};
}

PreparedKernel prepare_attention_merge(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    return {[shape = shape_of_merge(op)](const KernelArguments& arguments) {
      const V* o1 = in<V>(arguments, 0);
      const V* o2 = in<V>(arguments, 2);
      V* o = out<V>(arguments, 0);
      const auto launch_with = [&]<int kWidth>() {
        launch(attention_merge<V, kWidth>, geometry_of_merge(shape, shape.head_dim / kWidth), arguments.stream, shape,
               o1, in<V>(arguments, 1), o2, in<V>(arguments, 3), o, out<V>(arguments, 1));
      };
      const bool packed = shape.head_dim % kPackedElements<V> == 0 && are_aligned(o1, o2, o);
      packed ? launch_with.template operator()<kPackedElements<V>>() : launch_with.template operator()<1>();
    }};
  });
}

}  // namespace

void register_attention_merge(Registration& registration) {
  registration.add(kernel({"attention_merge", "ffff", "ff", prepare_attention_merge}));
}

}  // namespace strata::cuda
