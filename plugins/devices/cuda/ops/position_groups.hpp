#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "device/operands.hpp"
#include "kernels/row_groups.cuh"
#include "language/launch.hpp"

namespace strata::cuda {

/// Groups the positions of ids by the table row that each id names. Holds the workspace layout and the launches.
class PositionGroups {
 public:
  PositionGroups(DimIndexMap table_rows, std::int64_t count)
      : table_rows_(table_rows),
        count_(count),
        passes_(passes_for(table_rows.local_size)),
        occupied_(reserve(1)),
        occupied_rows_(reserve(std::min(table_rows.local_size, count))),
        begins_(reserve(table_rows.local_size)),
        ends_(reserve(table_rows.local_size)),
        digits_(reserve(digit_counts())) {
    for (PairsOffset& each : pairs_) each = {reserve(count), reserve(count)};
  }

  [[nodiscard]] std::int64_t bytes() const { return plan_.bytes(); }

  /// Groups the positions in `ids`.
  RowGroups make(const KernelArguments& arguments, const std::int32_t* ids) const {
    const Stream stream = arguments.stream;
    const auto at = [&](std::int64_t offset) { return workspace_at<int>(arguments, offset); };
    std::array<SortPairs, 2> pairs{};
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {at(pairs_[i].keys), at(pairs_[i].values)};
    // The last pass writes the sorted pairs to this buffer.
    const SortPairs sorted = pairs[0];
    if (passes_ % 2 == 1) std::swap(pairs[0], pairs[1]);
    launch(pair_positions, threads_for(count_), stream, count_, table_rows_, ids, pairs[0]);
    for (int pass = 0; pass < passes_; ++pass) {
      sort_by_digit(pass, pairs[0], pairs[1], at(digits_), stream);
      std::swap(pairs[0], pairs[1]);
    }
    const RowGroups groups{.occupied = at(occupied_),
                           .occupied_rows = at(occupied_rows_),
                           .begins = at(begins_),
                           .ends = at(ends_),
                           .positions = sorted.values};
    launch(clear_groups, threads_for(std::max<std::int64_t>(table_rows_.local_size, 1)), stream, table_rows_.local_size,
           groups);
    launch(find_pieces, threads_for(count_), stream, count_, table_rows_.local_size, sorted.keys, groups);
    return groups;
  }

 private:
  struct PairsOffset {
    std::int64_t keys = 0;
    std::int64_t values = 0;
  };

  static Geometry threads_for(std::int64_t items) {
    return {.grid = {blocks_for(items, kSortThreads)}, .block = {kSortThreads}};
  }
  [[nodiscard]] std::int64_t digit_counts() const { return std::int64_t{kDigits} * blocks_for(count_, kSortThreads); }
  std::int64_t reserve(std::int64_t count) { return plan_.reserve(count * static_cast<std::int64_t>(sizeof(int))); }

  void sort_by_digit(int pass, const SortPairs& from, const SortPairs& to, int* counts, Stream stream) const {
    launch(count_digits, threads_for(count_), stream, count_, pass, from.keys, counts);
    launch(add_up_counts, {.grid = {1}, .block = {kScanThreads}}, stream, digit_counts(), counts);
    launch(place_pairs, threads_for(count_), stream, count_, pass, from, counts, to);
  }

  DimIndexMap table_rows_;
  std::int64_t count_;
  int passes_;
  WorkspacePlan plan_;
  std::int64_t occupied_;
  std::int64_t occupied_rows_;
  std::int64_t begins_;
  std::int64_t ends_;
  std::int64_t digits_;
  std::array<PairsOffset, 2> pairs_;
};

}  // namespace strata::cuda
