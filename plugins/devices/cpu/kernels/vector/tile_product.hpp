#pragma once

#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// A small matrix with one number per (row, depth) and any strides.
struct TileOperand {
  const float* data;
  std::int64_t row_stride;
  std::int64_t depth_stride;
};

/// Rows that consist of whole vectors.
template <class Pointer>
struct TileRows {
  Pointer data;
  std::int64_t stride;
};

// The accumulators of a tile must fit into registers: 16 of the 32 of AVX-512 and NEON, 8 of the 16 of AVX2 and SSE2.
constexpr int kTileVectors = 2;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileHeight = 8;
#else
constexpr int kTileHeight = 4;
#endif

template <int height, int vectors>
inline void tile_kernel(std::int64_t depth, const TileOperand& a, const TileRows<const float*>& b,
                        const TileRows<float*>& c, bool accumulate) {
  Float total[height][vectors];
  STRATA_UNROLL
  for (int row = 0; row < height; ++row) {
    STRATA_UNROLL
    for (int v = 0; v < vectors; ++v) {
      total[row][v] = accumulate ? load(c.data + row * c.stride + v * kLanes) : Float{};
    }
  }
  const float* a_at = a.data;
  const float* b_at = b.data;
  for (std::int64_t k = 0; k < depth; ++k, a_at += a.depth_stride, b_at += b.stride) {
    Float b_row[vectors];
    STRATA_UNROLL
    for (int v = 0; v < vectors; ++v) b_row[v] = load(b_at + v * kLanes);
    STRATA_UNROLL
    for (int row = 0; row < height; ++row) {
      const Float factor = broadcast(a_at[row * a.row_stride]);
      STRATA_UNROLL
      for (int v = 0; v < vectors; ++v) total[row][v] = multiply_add(factor, b_row[v], total[row][v]);
    }
  }
  STRATA_UNROLL
  for (int row = 0; row < height; ++row) {
    STRATA_UNROLL
    for (int v = 0; v < vectors; ++v) store(c.data + row * c.stride + v * kLanes, total[row][v]);
  }
}

template <int vectors>
inline void tile_columns(std::int64_t rows, std::int64_t depth, TileOperand a, const TileRows<const float*>& b,
                         TileRows<float*> c, bool accumulate) {
  for (; rows >= kTileHeight; rows -= kTileHeight) {
    tile_kernel<kTileHeight, vectors>(depth, a, b, c, accumulate);
    a.data += kTileHeight * a.row_stride;
    c.data += kTileHeight * c.stride;
  }
  for (; rows > 0; --rows, a.data += a.row_stride, c.data += c.stride) {
    tile_kernel<1, vectors>(depth, a, b, c, accumulate);
  }
}

/// c[row, vectors of columns] (+)= sum over k < depth of a[row, k] * b[k, vectors of columns]
inline void tile_product(std::int64_t rows, std::int64_t vectors, std::int64_t depth, const TileOperand& a,
                         TileRows<const float*> b, TileRows<float*> c, bool accumulate) {
  for (; vectors >= kTileVectors; vectors -= kTileVectors) {
    tile_columns<kTileVectors>(rows, depth, a, b, c, accumulate);
    b.data += kTileVectors * kLanes;
    c.data += kTileVectors * kLanes;
  }
  for (; vectors > 0; --vectors, b.data += kLanes, c.data += kLanes) {
    tile_columns<1>(rows, depth, a, b, c, accumulate);
  }
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
