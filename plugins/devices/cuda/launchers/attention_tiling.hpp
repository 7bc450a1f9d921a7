#pragma once

#include "kernels/attention_mask.cuh"
#include "launchers/attention_plan.hpp"

/// \file
/// The tile sizes of attention on tensor cores, and the shared memory that they need.

namespace strata::cuda {

/// The tiles of a kernel: `Rows` of the block, 16 * RowTiles per warp, so that each loaded fragment of a column is used
/// RowTiles times; and `Columns` per iteration.
template <int HeadWidth, int RowTilesOfWarp, int Warps, int ColumnsOfTile, int BlocksOfMultiprocessor>
struct AttentionTiling {
  static constexpr int kWidth = HeadWidth;
  static constexpr int kThreads = Warps * kWarpSize;
  static constexpr int kRowTiles = RowTilesOfWarp;
  static constexpr int kRows = Warps * 16 * RowTilesOfWarp;
  static constexpr int kColumns = ColumnsOfTile;
  /// Limits registers, so that so many blocks fit a multiprocessor.
  static constexpr int kBlocks = BlocksOfMultiprocessor;

  static constexpr std::size_t kRowBytes = std::size_t{kRows} * HeadWidth * 2;
  static constexpr std::size_t kColumnBytes = std::size_t{kColumns} * HeadWidth * 2;
  static constexpr std::size_t kKeptBytes = std::size_t{kRows} * kColumns / 8;
  static constexpr std::size_t kRowStatisticsBytes = kRows * sizeof(QueryStatistic<float>);
  static constexpr std::size_t kColumnStatisticsBytes = kColumns * sizeof(QueryStatistic<float>);
  static constexpr std::size_t kPlacesBytes = sizeof(TilePlaces<kRows>) + 2 * sizeof(TilePlaces<kColumns>);

  // Shared memory: tiles of rows; two stages of two tiles of columns; places; statistics; two stages of kept bits.
  static constexpr std::size_t forward_bytes(bool is_general) {
    return kRowBytes + 4 * kColumnBytes + kPlacesBytes + (is_general ? 2 * kKeptBytes : 0);
  }
  static constexpr std::size_t query_gradient_bytes(bool is_general) {
    return kRowBytes + kRowStatisticsBytes + forward_bytes(is_general);
  }
  static constexpr std::size_t key_gradient_bytes(bool is_general) {
    return kRowBytes + 2 * kColumnStatisticsBytes + forward_bytes(is_general);
  }
};

/// The tilings for heads of up to Width columns, with `Columns` queries or keys per iteration.
template <int Width, int Columns>
struct AttentionTilings;

/// On Hopper, warpgroups multiply tiles of 64 by 64.
template <>
struct AttentionTilings<kNarrowHead, 64> {
  using Forward = AttentionTiling<kNarrowHead, 1, 4, 64, 4>;
  using QueryGradient = AttentionTiling<kNarrowHead, 1, 4, 64, 4>;
  using KeyGradient = AttentionTiling<kNarrowHead, 1, 4, 64, 3>;
};
template <>
struct AttentionTilings<kWideHead, 64> {
  using Forward = AttentionTiling<kWideHead, 1, 4, 64, 2>;
  using QueryGradient = AttentionTiling<kWideHead, 1, 4, 64, 2>;
  using KeyGradient = AttentionTiling<kWideHead, 1, 4, 64, 2>;
};
/// For less shared memory.
template <>
struct AttentionTilings<kWideHead, 32> {
  using Forward = AttentionTiling<kWideHead, 2, 4, 32, 1>;
  using QueryGradient = AttentionTiling<kWideHead, 1, 4, 32, 2>;
  using KeyGradient = AttentionTiling<kWideHead, 1, 4, 32, 2>;
};

}  // namespace strata::cuda
