#include <algorithm>

#include "device/cuda_kernel.hpp"
#include "device/dim_index_map.hpp"
#include "device/operands.hpp"
#include "kernels/column_tile.cuh"
#include "kernels/element_run.cuh"
#include "language/index_map.hpp"
#include "language/launch.hpp"
#include "ops/position_groups.hpp"

namespace strata::cuda {

/// Lanes per row of the table, and rows per block.
inline constexpr int kEmbeddingLanes = kWarpSize;
inline constexpr int kEmbeddingRows = 8;

/// y[i] = table[ids[i]], or zeros if the id is negative or in another shard. A warp copies a row.
template <class T, int kWidth>
__global__ void __launch_bounds__(kEmbeddingLanes* kEmbeddingRows)
    embedding(std::int64_t count, int columns, DimIndexMap table_rows, const T* table, const std::int32_t* ids, T* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kEmbeddingRows + threadIdx.y;
  if (i >= count) return;
  const std::int64_t row = table_rows.local_index(ids[i]);
  T* to = y + i * columns;
  const auto each_run = [&](const auto& copy) {
    for (int column = static_cast<int>(threadIdx.x) * kWidth; column < columns; column += kEmbeddingLanes * kWidth) {
      copy(column);
    }
  };
  if (row < 0) {
    const Accumulate<T> zeros[kWidth] = {};
    each_run([&](int column) { store_run<kWidth>(to + column, zeros); });
  } else {
    const T* from = table + row * columns;
    each_run([&](int column) {
      Accumulate<T> values[kWidth];
      load_run<kWidth>(from + column, values);
      store_run<kWidth>(to + column, values);
    });
  }
}

/// dtable[row] (+)= the rows of dy that name it, for block (occupied row, tile of columns). Each warp sums every
/// kTileRows-th of them, and the sums of the warps are added in order. So the order of additions depends only on the
/// ids.
template <class T, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    embedding_gradient(int columns, RowGroups groups, const T* dy, Accumulate<T>* dtable, bool accumulate) {
  using V = Accumulate<T>;
  if (static_cast<int>(blockIdx.x) >= *groups.occupied) return;
  const std::int64_t row = groups.occupied_rows[blockIdx.x];
  const int* positions = groups.positions + groups.begins[row];
  const int size = groups.ends[row] - groups.begins[row];
  const int tile = static_cast<int>(blockIdx.y) * kTileColumns<kWidth>;
  const int column = tile + static_cast<int>(threadIdx.x) * kWidth;

  V sum[kWidth] = {};
  if (column < columns) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < size; i += kTileRows) {
      V values[kWidth];
      load_run<kWidth>(dy + static_cast<std::int64_t>(positions[i]) * columns + column, values);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += values[j];
    }
  }
  const V total = sum_over_tile_rows(sum);
  const int own = thread_rank();
  if (own >= kTileColumns<kWidth> || tile + own >= columns) return;
  V* to = dtable + row * columns + tile + own;
  *to = accumulate ? *to + total : total;
}

/// Sets the rows that no id names to 0.
template <class V, int kWidth>
__global__ void __launch_bounds__(kTileLanes* kTileRows)
    clear_unoccupied_rows(std::int64_t rows, int columns, RowGroups groups, V* dtable) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTileRows + threadIdx.y;
  if (row >= rows || groups.ends[row] > 0) return;
  const V zeros[kWidth] = {};
  for (int column = static_cast<int>(threadIdx.x) * kWidth; column < columns; column += kTileLanes * kWidth) {
    store_run<kWidth>(dtable + row * columns + column, zeros);
  }
}

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
