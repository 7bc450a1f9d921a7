#pragma once

#include <type_traits>

#include "kernels/element_run.cuh"
#include "language/language.hpp"

namespace strata::cuda {

// Rows that are read several times. A team of threads shares a row in runs of neighbouring columns and keeps it in
// registers. A team is one warp, with several in a block (blockDim.y > 1), or all threads of a block.

/// Number of runs of a row that a thread keeps.
inline constexpr int kHeldRuns = 4;
inline constexpr int kLargestTeam = 512;
/// Number of one-warp teams in a block.
inline constexpr int kWarpTeams = 4;

/// The team's row. It may be past the last row if the block has more teams than rows are left.
__device__ __forceinline__ std::int64_t row_of_team() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

template <class V>
__device__ __forceinline__ V team_sum(V value) {
  return blockDim.x == kWarpSize ? warp_sum(value) : block_sum(value);
}

/// Calls function(column, slot) for each of the thread's runs. kHeld: the largest number of runs, with `slot` as their
/// number. kHeld = 0 allows any number of runs, and `slot` is always 0.
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

/// A thread's view of its team's row. The row is read once if the thread's runs fit the registers, otherwise at every
/// access.
template <class T, int kWidth, int kHeld>
class TeamRow {
 public:
  using V = Accumulate<T>;

  __device__ __forceinline__ TeamRow(const T* row, int columns) : row_(row) {
    if constexpr (kHeld > 0) {
      for_each_run<kWidth, kHeld>(columns, [&](int column, int slot) {
        if constexpr (kWidth == 1) {
          held_[slot] = row_[column];
        } else {
          held_[slot].load(row_ + column);
        }
      });
    }
  }

  /// Copies the current run of for_each_run().
  __device__ __forceinline__ void read([[maybe_unused]] int column, [[maybe_unused]] int slot, V (&run)[kWidth]) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if constexpr (kWidth == 1) {
          run[i] = to_computed<V>(held_[slot]);
        } else {
          run[i] = to_computed<V>(held_[slot][i]);
        }
      }
    } else {
      load_run<kWidth>(row_ + column, run);
    }
  }

 private:
  /// Elements as they are in memory, because computed 16-bit ones would take twice the registers.
  using Run =
      typename std::conditional_t<kWidth == 1, std::type_identity<T>, std::type_identity<ElementRun<T, kWidth>>>::type;

  const T* row_;
  Run held_[kHeld > 0 ? kHeld : 1];
};

}  // namespace strata::cuda
