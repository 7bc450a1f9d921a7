#pragma once

#include "language/index_map.hpp"
#include "language/language.hpp"

/// \file
/// Groups the positions of ids by the row that they name, a counting sort without a pass over the rows: positions are
/// counted by row, each row that has any gets a piece of one list, and within its piece every position finds its place
/// among the others. Which piece a row gets depends on timing, what stands in it does not: its positions, ascending.

namespace strata::cuda {

inline constexpr int kGroupThreads = 256;

/// Device memory. An index of -1 in `row_of` is a position that no row takes.
struct RowGroups {
  int* sizes;  ///< [rows]
  /// The positions that have a piece of the list, and the rows that have one.
  int* placed;
  int* occupied;

  int* begins;         ///< [rows] where the pieces of occupied rows begin
  int* occupied_rows;  ///< [occupied]
  int* row_of;         ///< [positions]
  int* arrivals;       ///< [positions] how many of the same row were counted before
  int* unordered;      ///< [positions] the list as it was filled
  int* positions;      ///< [positions] the list
};

__device__ __forceinline__ std::int64_t position_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x;
}

/// The sum of the values of the lanes up to this one.
__device__ __forceinline__ int warp_inclusive_sum(int value, int lane) {
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int before = __shfl_up_sync(kFullMask, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

/// First of all: `sizes`, `placed` and `occupied` become 0.
static __global__ void __launch_bounds__(kGroupThreads) clear_groups(std::int64_t rows, RowGroups groups) {
  const std::int64_t row = position_of_thread();
  if (row < rows) groups.sizes[row] = 0;
  if (row > 0) return;
  *groups.placed = 0;
  *groups.occupied = 0;
}

static __global__ void __launch_bounds__(kGroupThreads)
    count_positions(std::int64_t count, DimIndexMap table_rows, const std::int32_t* ids, RowGroups groups) {
  const std::int64_t i = position_of_thread();
  if (i >= count) return;
  const int row = static_cast<int>(table_rows.local_index(ids[i]));
  groups.row_of[i] = row;
  if (row >= 0) groups.arrivals[i] = atomicAdd(&groups.sizes[row], 1);
}

/// The position that was counted first asks for its row's piece, a warp for all of its pieces at once.
static __global__ void __launch_bounds__(kGroupThreads) allocate_pieces(std::int64_t count, RowGroups groups) {
  const std::int64_t i = position_of_thread();
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row = i < count ? groups.row_of[i] : -1;
  const bool is_first = row >= 0 && groups.arrivals[i] == 0;
  const int size = is_first ? groups.sizes[row] : 0;
  const int placed = warp_inclusive_sum(size, lane);
  const int occupied = warp_inclusive_sum(is_first ? 1 : 0, lane);

  int first_position = 0;
  int first_row = 0;
  if (lane == kWarpSize - 1) {
    first_position = atomicAdd(groups.placed, placed);
    first_row = atomicAdd(groups.occupied, occupied);
  }
  first_position = __shfl_sync(kFullMask, first_position, kWarpSize - 1);
  first_row = __shfl_sync(kFullMask, first_row, kWarpSize - 1);
  if (!is_first) return;
  groups.begins[row] = first_position + placed - size;
  groups.occupied_rows[first_row + occupied - 1] = row;
}

static __global__ void __launch_bounds__(kGroupThreads) fill_pieces(std::int64_t count, RowGroups groups) {
  const std::int64_t i = position_of_thread();
  if (i >= count) return;
  const int row = groups.row_of[i];
  if (row >= 0) groups.unordered[groups.begins[row] + groups.arrivals[i]] = static_cast<int>(i);
}

/// A position's place is the number of smaller ones in its piece.
static __global__ void __launch_bounds__(kGroupThreads) order_pieces(std::int64_t count, RowGroups groups) {
  const std::int64_t i = position_of_thread();
  if (i >= count) return;
  const int row = groups.row_of[i];
  if (row < 0) return;
  const int begin = groups.begins[row];
  const int end = begin + groups.sizes[row];
  int place = begin;
  for (int other = begin; other < end; ++other) place += groups.unordered[other] < i ? 1 : 0;
  groups.positions[place] = static_cast<int>(i);
}

}  // namespace strata::cuda
