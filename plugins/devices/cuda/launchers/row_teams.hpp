#pragma once

#include <algorithm>

#include "device/cuda_environment.hpp"
#include "kernels/column_tile.cuh"
#include "kernels/row_team.cuh"
#include "language/launch.hpp"

/// \file
/// Geometries of kernels that normalise rows, and of those that sum rows by columns.

namespace strata::cuda {

/// Calls function.operator()<kWidth, kHeld>(geometry) with the values that fit the rows. Rows are read in runs of 16
/// bytes if their alignment allows it.
template <class T, class Function>
void with_teams(std::int64_t rows, std::int64_t columns, bool aligned, const Function& function) {
  constexpr int kWidth = kPackedElements<T>;
  const bool packed = aligned && columns % kWidth == 0;
  const std::int64_t lanes = columns / (packed ? kWidth : 1);
  const unsigned team = kWarpSize * std::max(1U, blocks_for(lanes, kHeldRuns * kWarpSize));
  Geometry geometry{.grid = {static_cast<unsigned>(rows)}, .block = {std::min<unsigned>(team, kLargestTeam)}};
  if (team == kWarpSize) geometry = {.grid = {blocks_for(rows, kWarpTeams)}, .block = {kWarpSize, kWarpTeams}};
  if (team > kLargestTeam) {
    packed ? function.template operator()<kWidth, 0>(geometry) : function.template operator()<1, 0>(geometry);
  } else {
    packed ? function.template operator()<kWidth, kHeldRuns>(geometry)
           : function.template operator()<1, kHeldRuns>(geometry);
  }
}

/// Distribution of rows over the blocks that sum them by columns.
struct Slices {
  std::int64_t count = 1;
  std::int64_t rows = 0;
};

template <class T>
Slices slices_of(std::int64_t rows, std::int64_t columns, const CudaEnvironment& environment) {
  constexpr int kBlocksPerMultiprocessor = 4;
  constexpr std::int64_t kLeastRows = 4 * kTileRows;
  const std::int64_t tiles = blocks_for(columns, kTileColumns<kPackedElements<T>>);
  const std::int64_t wanted = blocks_for(kBlocksPerMultiprocessor * environment.multiprocessors(), tiles);
  const std::int64_t each = std::max<std::int64_t>(blocks_for(rows, wanted), kLeastRows);
  return {std::max<std::int64_t>(blocks_for(rows, each), 1), each};
}

}  // namespace strata::cuda
