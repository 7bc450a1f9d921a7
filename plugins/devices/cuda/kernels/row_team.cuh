#pragma once

#include "kernels/element_run.cuh"

/// \file
/// Rows that are read several times: a team of threads shares a row in runs of neighbouring columns and keeps it in
/// registers. A team is a warp, with several in a block (blockDim.y > 1), or all threads of a block.

namespace strata::cuda {

/// Runs of a row that a thread keeps.
inline constexpr int kHeldRuns = 4;
inline constexpr int kLargestTeam = 512;
/// Teams of one warp in a block.
inline constexpr int kWarpTeams = 4;

/// The team's row; not below the number of rows where the block has teams to spare.
__device__ __forceinline__ std::int64_t row_of_team() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

template <class V>
__device__ __forceinline__ V team_sum(V value) {
  return blockDim.x == kWarpSize ? warp_sum(value) : block_sum(value);
}

/// Calls function(column, slot) for each of the thread's runs. kHeld: the largest number of them, or 0 for any number:
/// then slot is always 0.
template <int kWidth, int kHeld, class Function>
__device__ __forceinline__ void for_each_run(int columns, const Function& function) {
  const int first = static_cast<int>(threadIdx.x) * kWidth;
  const int step = static_cast<int>(blockDim.x) * kWidth;
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int slot = 0; slot < kHeld; ++slot) {
      const int column = first + slot * step;
      if (column < columns) function(column, slot);
    }
  } else {
    for (int column = first; column < columns; column += step) function(column, 0);
  }
}

/// A row as a thread of its team sees it: read once where the thread's runs fit its registers, else every time.
template <class T, int kWidth, int kHeld>
class TeamRow {
 public:
  using V = Accumulate<T>;

  __device__ __forceinline__ TeamRow(const T* row, int columns) : row_(row) {
    if constexpr (kHeld > 0) {
      for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) { load_run<kWidth>(row_ + column, held_[slot]); });
    }
  }

  /// Copies the run that for_each_run is at.
  __device__ __forceinline__ void read([[maybe_unused]] int column, [[maybe_unused]] int slot, V (&run)[kWidth]) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) run[i] = held_[slot][i];
    } else {
      load_run<kWidth>(row_ + column, run);
    }
  }

 private:
  const T* row_;
  V held_[kHeld > 0 ? kHeld : 1][kWidth];
};

}  // namespace strata::cuda
