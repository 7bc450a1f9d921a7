#include <algorithm>
#include <bit>

#include "device/cuda_kernel.hpp"
#include "device/operands.hpp"
#include "kernels/attention_merge.cuh"
#include "language/launch.hpp"

namespace strata::cuda {
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
