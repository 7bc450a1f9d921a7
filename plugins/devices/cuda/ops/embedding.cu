#include <algorithm>

#include "device/dim_index_map.hpp"
#include "kernels/embedding.cuh"
#include "kernels/embedding_gradient.cuh"
#include "language/launch.hpp"
#include "ops/operations.hpp"

namespace strata::cuda {
namespace {

/// The workspace of a gradient.
class GroupMemory {
 public:
  GroupMemory(std::int64_t rows, std::int64_t positions)
      : sizes_(reserve(rows)),
        totals_(reserve(2)),
        begins_(reserve(rows)),
        occupied_rows_(reserve(std::min(rows, positions))),
        row_of_(reserve(positions)),
        arrivals_(reserve(positions)),
        unordered_(reserve(positions)),
        positions_(reserve(positions)) {}

  [[nodiscard]] std::int64_t bytes() const { return plan_.bytes(); }
  [[nodiscard]] RowGroups groups(const KernelArguments& arguments) const {
    const auto at = [&](std::int64_t offset) { return workspace_at<int>(arguments, offset); };
    return {.sizes = at(sizes_),
            .placed = at(totals_),
            .occupied = at(totals_) + 1,
            .begins = at(begins_),
            .occupied_rows = at(occupied_rows_),
            .row_of = at(row_of_),
            .arrivals = at(arrivals_),
            .unordered = at(unordered_),
            .positions = at(positions_)};
  }

 private:
  std::int64_t reserve(std::int64_t count) { return plan_.reserve(count * static_cast<std::int64_t>(sizeof(int))); }

  WorkspacePlan plan_;
  std::int64_t sizes_;
  std::int64_t totals_;
  std::int64_t begins_;
  std::int64_t occupied_rows_;
  std::int64_t row_of_;
  std::int64_t arrivals_;
  std::int64_t unordered_;
  std::int64_t positions_;
};

void group_positions(const DimIndexMap& table_rows, std::int64_t count, const std::int32_t* ids,
                     const RowGroups& groups, Stream stream) {
  const auto threads_for = [](std::int64_t items) {
    return Geometry{.grid = {blocks_for(items, kGroupThreads)}, .block = {kGroupThreads}};
  };
  const Geometry by_position = threads_for(count);
  launch(clear_groups, threads_for(std::max<std::int64_t>(table_rows.local_size, 1)), stream, table_rows.local_size,
         groups);
  launch(count_positions, by_position, stream, count, table_rows, ids, groups);
  launch(allocate_pieces, by_position, stream, count, groups);
  launch(fill_pieces, by_position, stream, count, groups);
  launch(order_pieces, by_position, stream, count, groups);
}

}  // namespace

PreparedOp prepare_embedding(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.operands[0]);
    return {[=, table_rows = dim_index_map(op, op.operands[0].dims[0])](const KernelArguments& arguments,
                                                                        Stream stream) {
      const T* table = in<T>(arguments, 0);
      T* y = out<T>(arguments, 0);
      const Geometry geometry{.grid = {blocks_for(count, kEmbeddingRows)}, .block = {kEmbeddingLanes, kEmbeddingRows}};
      const auto launch_with = [&]<int kWidth>() {
        launch(embedding<T, kWidth>, geometry, stream, count, width, table_rows, table, in<std::int32_t>(arguments, 1),
               y);
      };
      const bool packed = width % kPackedElements<T> == 0 && are_aligned(table, y);
      packed ? launch_with.template operator()<kPackedElements<T>>() : launch_with.template operator()<1>();
    }};
  });
}

PreparedOp prepare_embedding_gradient(const OpInstance& op, const Environment& /*environment*/) {
  return with_element(op.operands[0].dtype, [&]<class T>() -> PreparedOp {
    using V = Accumulate<T>;
    const std::int64_t count = elements(op.operands[1]);
    const std::int64_t width = columns(op.results[0]);
    const DimIndexMap table_rows = dim_index_map(op, op.results[0].dims[0]);
    const GroupMemory memory(table_rows.local_size, count);
    const auto launch_all = [=, accumulate = op.accumulate](const KernelArguments& arguments, Stream stream) {
      const T* dy = in<T>(arguments, 0);
      V* dtable = out<V>(arguments, 0);
      const RowGroups groups = memory.groups(arguments);
      group_positions(table_rows, count, in<std::int32_t>(arguments, 1), groups, stream);

      const auto clear = [&]<int kWidth>() {
        const Geometry geometry{.grid = {blocks_for(table_rows.local_size, kTileRows)},
                                .block = {kTileLanes, kTileRows}};
        launch(clear_unoccupied_rows<V, kWidth>, geometry, stream, table_rows.local_size, width, groups, dtable);
      };
      const bool clears_packed = width % kPackedElements<V> == 0 && are_aligned(dtable);
      if (!accumulate) {
        clears_packed ? clear.template operator()<kPackedElements<V>>() : clear.template operator()<1>();
      }

      const auto add = [&]<int kWidth>() {
        const Geometry geometry{
            .grid = {blocks_for(std::min(count, table_rows.local_size), 1), blocks_for(width, kTileColumns<kWidth>)},
            .block = {kTileLanes, kTileRows}};
        launch(embedding_gradient<T, kWidth>, geometry, stream, width, groups, dy, dtable, accumulate);
      };
      const bool adds_packed = width % kPackedElements<T> == 0 && are_aligned(dy);
      adds_packed ? add.template operator()<kPackedElements<T>>() : add.template operator()<1>();
    };
    return {launch_all, memory.bytes()};
  });
}

}  // namespace strata::cuda
