#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "device/dim_index_map.hpp"
#include "device/operands.hpp"
#include "kernels/embedding.cuh"
#include "kernels/embedding_gradient.cuh"
#include "language/launch.hpp"
#include "ops/position_groups.hpp"

namespace strata::cuda {
namespace {

PreparedKernel prepare_embedding(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, table_rows = dim_index_map(op, op.operands[0].dims[0])](const KernelArguments& arguments) {
      const T* table = in<T>(arguments, 0);
      T* y = out<T>(arguments, 0);
      const Geometry geometry{.grid = {blocks_for(count, kEmbeddingRows)}, .block = {kEmbeddingLanes, kEmbeddingRows}};
      const auto launch_with = [&]<int kWidth>() {
        launch(embedding<T, kWidth>, geometry, arguments.stream, count, width, table_rows, table,
               in<std::int32_t>(arguments, 1), y);
      };
      const bool packed = width % kPackedElements<T> == 0 && are_aligned(table, y);
      packed ? launch_with.template operator()<kPackedElements<T>>() : launch_with.template operator()<1>();
    }};
  });
}

PreparedKernel prepare_embedding_gradient(const OpInstance& op, const CudaEnvironment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedKernel {
    using V = Accumulate<T>;
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.results[0]);
    const DimIndexMap table_rows = dim_index_map(op, op.results[0].dims[0]);
    const PositionGroups positions(table_rows, count);
    const auto launch_all = [=, accumulate = op.accumulate](const KernelArguments& arguments) {
      const T* dy = in<T>(arguments, 0);
      V* dtable = out<V>(arguments, 0);
      const RowGroups groups = positions.make(arguments, in<std::int32_t>(arguments, 1));

      const auto clear = [&]<int kWidth>() {
        const Geometry geometry{.grid = {blocks_for(table_rows.local_size, kTileRows)},
                                .block = {kTileLanes, kTileRows}};
        launch(clear_unoccupied_rows<V, kWidth>, geometry, arguments.stream, table_rows.local_size, width, groups,
               dtable);
      };
      const bool clears_packed = width % kPackedElements<V> == 0 && are_aligned(dtable);
      if (!accumulate) {
        clears_packed ? clear.template operator()<kPackedElements<V>>() : clear.template operator()<1>();
      }

      const auto add = [&]<int kWidth>() {
        const Geometry geometry{
            .grid = {blocks_for(std::min(count, table_rows.local_size), 1), blocks_for(width, kTileColumns<kWidth>)},
            .block = {kTileLanes, kTileRows}};
        launch(embedding_gradient<T, kWidth>, geometry, arguments.stream, width, groups, dy, dtable, accumulate);
      };
      const bool adds_packed = width % kPackedElements<T> == 0 && are_aligned(dy);
      adds_packed ? add.template operator()<kPackedElements<T>>() : add.template operator()<1>();
    };
    return {launch_all, positions.bytes()};
  });
}

}  // namespace

void register_embedding(Registration& registration) {
  registration.add(kernel({"embedding", "ti", "t", prepare_embedding}));
  registration.add(kernel({"embedding_gradient", "ti", "f", prepare_embedding_gradient, true}));
}

}  // namespace strata::cuda
