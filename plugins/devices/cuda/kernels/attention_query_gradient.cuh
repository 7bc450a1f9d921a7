#pragma once

#include "kernels/attention_score_gradient.cuh"
#include "kernels/attention_store.cuh"

/// \file
/// The gradient of queries on tensor cores. Each block has a tile of queries and loops over tiles of keys and values.
/// It loads the next tile while it computes with the current one. This kernel and that of key gradients both recompute
/// probabilities, so that no two blocks add to the same number and sums have one order.

namespace strata::cuda {

template <int Width>
struct QueryGradientTiling {
  static constexpr int kWidth = Width;
  static constexpr int kThreads = 128;
  static constexpr int kRowTiles = 2;
  static constexpr int kQueries = kThreads / kWarpSize * 16 * kRowTiles;
  static constexpr int kKeys = 32;

  static constexpr std::size_t kQueryBytes = std::size_t{kQueries} * Width * 2;
  static constexpr std::size_t kKeyBytes = std::size_t{kKeys} * Width * 2;
  static constexpr std::size_t kKeptBytes = std::size_t{kQueries} * kKeptWords<kKeys> * 4;
  /// Bytes of one of two stages: keys, values and kept bits of a tile.
  static constexpr std::size_t kStageBytes = 2 * kKeyBytes + kKeptBytes;
  static constexpr std::size_t kSharedBytes =
      2 * kQueryBytes + 2 * kStageBytes + QueryStatistics<float, kQueries>::kBytes;
};

/// Grid: tiles of queries, heads, samples.
template <class T, class Tiling>
__global__ void __launch_bounds__(Tiling::kThreads)
    attention_query_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v,
                                    const float* log_sum_exponential, const T* d_o, const float* products, void* d_q) {
  constexpr int kWidth = Tiling::kWidth;
  constexpr int kKeys = Tiling::kKeys;
  constexpr int kQueries = Tiling::kQueries;
  using KeyTile = SharedTile<T, kKeys, kWidth>;
  using QueryTile = SharedTile<T, kQueries, kWidth>;
  using Scores = MatrixFragment<Tiling::kRowTiles, kKeys>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;

  unsigned char* shared = dynamic_shared();
  const QueryTile query_tile(shared);
  const QueryTile gradient_tile(shared + Tiling::kQueryBytes);
  unsigned char* stages = shared + 2 * Tiling::kQueryBytes;
  const QueryStatistics<float, kQueries> statistics(stages + 2 * Tiling::kStageBytes);
  const auto kept_of = [&](int stage) {
    return reinterpret_cast<std::uint32_t*>(stages + stage * Tiling::kStageBytes + 2 * Tiling::kKeyBytes);
  };

  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  const VisibleKeys<kQueries, kKeys> visible(shape, first_query);
  const auto load_tile = [&](int tile, int stage) {
    if (tile >= visible.count()) return;
    unsigned char* to = stages + stage * Tiling::kStageBytes;
    KeyTile(to).template load<Tiling::kThreads>(keys, tile * kKeys);
    KeyTile(to + Tiling::kKeyBytes).template load<Tiling::kThreads>(values, tile * kKeys);
    if (shape.dropout.threshold != 0) {
      draw_kept_bits<Tiling::kThreads, kQueries, kKeys>(kept_of(stage), shape, sample, head, first_query, tile * kKeys);
    }
  };

  int tile = visible.next(0);
  query_tile.template load<Tiling::kThreads>(query_rows(shape, q, sample, head), first_query);
  gradient_tile.template load<Tiling::kThreads>(query_rows(shape, d_o, sample, head), first_query);
  load_tile(tile, 0);
  commit_copies();
  const std::int64_t row = shape.statistics(sample, head);
  statistics.template load<Tiling::kThreads>(log_sum_exponential + row, products + row, first_query, shape.queries);

  MatrixFragment<Tiling::kRowTiles, kWidth> sum;
  sum.clear();
  for (int stage = 0; tile < visible.count(); stage ^= 1) {
    wait_copies<0>();
    __syncthreads();  // The tile is loaded, and all warps have read the last one.
    const int next = visible.next(tile + 1);
    load_tile(next, stage ^ 1);
    commit_copies();
    const KeyTile key_tile(stages + stage * Tiling::kStageBytes);
    const KeyTile value_tile(stages + stage * Tiling::kStageBytes + Tiling::kKeyBytes);
    Scores scores = multiply_transposed<T, Tiling::kRowTiles>(query_tile, key_tile);
    if (!visible.is_whole(tile)) hide<Rows::are_queries>(scores, shape, sample, first_query, tile * kKeys);
    Scores value_products = multiply_transposed<T, Tiling::kRowTiles>(gradient_tile, value_tile);
    differentiate<Rows::are_queries, kKeys>(scores, value_products, shape, statistics, kept_of(stage));
    multiply_add<T>(sum, value_products, key_tile);
    tile = next;
  }
  wait_copies<0>();
  __syncthreads();

  const auto scale = shape.scale.as<float>();
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) sum.scale_row(r, scale);
  store_result(
      sum, query_tile, d_q, shape.f32_results, [&](auto* all) { return query_rows(shape, all, sample, head); },
      first_query);
}

}  // namespace strata::cuda
