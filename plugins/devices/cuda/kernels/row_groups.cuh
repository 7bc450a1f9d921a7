#pragma once

#include "kernels/radix_sort.cuh"
#include "language/index_map.hpp"

/// \file
/// Groups the positions of ids by the row that they name. Positions are sorted by row. Each row that is named gets a
/// range of the sorted list with its positions in ascending order. The order of the occupied rows among each other
/// depends on timing.

namespace strata::cuda {

/// The groups, in device memory.
struct RowGroups {
  int* occupied;       ///< number of rows with positions
  int* occupied_rows;  ///< [occupied]
  int* begins;         ///< [rows] where the range of an occupied row begins
  int* ends;           ///< [rows] where the range ends; 0: no position names the row
  int* positions;      ///< [positions] the list
};

/// Marks all rows as not occupied. Runs first.
static __global__ void __launch_bounds__(kSortThreads) clear_groups(std::int64_t rows, RowGroups groups) {
  const std::int64_t row = pair_of_thread();
  if (row < rows) groups.ends[row] = 0;
  if (row == 0) *groups.occupied = 0;
}

/// Makes pairs of a row and a position that names it. Positions that name no row get a row past the last one.
static __global__ void __launch_bounds__(kSortThreads)
    pair_positions(std::int64_t count, DimIndexMap table_rows, const std::int32_t* ids, SortPairs pairs) {
  const std::int64_t i = pair_of_thread();
  if (i >= count) return;
  const std::int64_t row = table_rows.local_index(ids[i]);
  pairs.keys[i] = static_cast<int>(row >= 0 ? row : table_rows.local_size);
  pairs.values[i] = static_cast<int>(i);
}

/// Finds the range of each row in the sorted list. A warp appends all of its new rows at once.
static __global__ void __launch_bounds__(kSortThreads)
    find_pieces(std::int64_t count, std::int64_t rows, const int* sorted_rows, RowGroups groups) {
  const std::int64_t i = pair_of_thread();
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row = i < count ? sorted_rows[i] : static_cast<int>(rows);
  const bool is_occupied = row < rows;
  const bool is_first = is_occupied && (i == 0 || sorted_rows[i - 1] != row);
  const bool is_last = is_occupied && (i + 1 == count || sorted_rows[i + 1] != row);
  if (is_first) groups.begins[row] = static_cast<int>(i);
  if (is_last) groups.ends[row] = static_cast<int>(i) + 1;

  const unsigned firsts = __ballot_sync(kFullMask, is_first);
  int place = 0;
  if (lane == 0 && firsts != 0) place = atomicAdd(groups.occupied, __popc(firsts));
  place = __shfl_sync(kFullMask, place, 0);
  if (is_first) groups.occupied_rows[place + __popc(firsts & ((1U << lane) - 1))] = row;
}

}  // namespace strata::cuda
