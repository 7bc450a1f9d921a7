#pragma once

#include "kernels/attention_score_gradient.cuh"
#include "kernels/attention_store.cuh"

/// \file
/// The gradients of keys and values on tensor cores. Each block has a tile of keys and loops over tiles of the queries
/// of all heads that read these keys. Scores are computed transposed, because their register layout is then that of the
/// left factors of both gradients.

namespace strata::cuda {

template <int Width>
struct KeyGradientTiling {
  static constexpr int kWidth = Width;
  static constexpr int kThreads = 128;
  /// With wide heads, two gradients fill the registers at one tile of 16 rows per warp.
  static constexpr int kRowTiles = Width > 64 ? 1 : 2;
  static constexpr int kKeys = kThreads / kWarpSize * 16 * kRowTiles;
  static constexpr int kQueries = 32;

  static constexpr std::size_t kKeyBytes = std::size_t{kKeys} * Width * 2;
  static constexpr std::size_t kQueryBytes = std::size_t{kQueries} * Width * 2;
  static constexpr std::size_t kKeptBytes = std::size_t{kQueries} * kKeptWords<kKeys> * 4;
  /// Bytes of one of two stages: queries, gradients of outputs, statistics and kept bits of a tile.
  static constexpr std::size_t kStageBytes = 2 * kQueryBytes + QueryStatistics<float, kQueries>::kBytes + kKeptBytes;
  static constexpr std::size_t kSharedBytes = 2 * kKeyBytes + 2 * kStageBytes;
};

/// Grid: tiles of keys, heads of keys, samples.
template <class T, class Tiling>
__global__ void __launch_bounds__(Tiling::kThreads)
    attention_key_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v,
                                  const float* log_sum_exponential, const T* d_o, const float* products, void* d_k,
                                  void* d_v) {
  constexpr int kWidth = Tiling::kWidth;
  constexpr int kKeys = Tiling::kKeys;
  constexpr int kQueries = Tiling::kQueries;
  using KeyTile = SharedTile<T, kKeys, kWidth>;
  using QueryTile = SharedTile<T, kQueries, kWidth>;
  using Statistics = QueryStatistics<float, kQueries>;
  using Scores = MatrixFragment<Tiling::kRowTiles, kQueries>;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_key = static_cast<int>(blockIdx.x) * kKeys;

  unsigned char* shared = dynamic_shared();
  const KeyTile key_tile(shared);
  const KeyTile value_tile(shared + Tiling::kKeyBytes);
  unsigned char* stages = shared + 2 * Tiling::kKeyBytes;
  const auto query_tile_of = [&](int stage) { return QueryTile(stages + stage * Tiling::kStageBytes); };
  const auto gradient_tile_of = [&](int stage) {
    return QueryTile(stages + stage * Tiling::kStageBytes + Tiling::kQueryBytes);
  };
  const auto statistics_of = [&](int stage) {
    return Statistics(stages + stage * Tiling::kStageBytes + 2 * Tiling::kQueryBytes);
  };
  const auto kept_of = [&](int stage) {
    return reinterpret_cast<std::uint32_t*>(stages + (stage + 1) * Tiling::kStageBytes - Tiling::kKeptBytes);
  };

  const QueryWalk<kQueries, kKeys> walk(shape, first_key, kv_head);
  using Step = typename QueryWalk<kQueries, kKeys>::Step;
  const auto load_step = [&](Step step, int stage) {
    if (walk.is_end(step)) return;
    const int head = step.head;
    const int first_query = step.first_query();
    query_tile_of(stage).template load<Tiling::kThreads>(query_rows(shape, q, sample, head), first_query);
    gradient_tile_of(stage).template load<Tiling::kThreads>(query_rows(shape, d_o, sample, head), first_query);
    const std::int64_t row = shape.statistics(sample, head);
    statistics_of(stage).template load<Tiling::kThreads>(log_sum_exponential + row, products + row, first_query,
                                                         shape.queries);
    if (shape.dropout.threshold != 0) {
      draw_kept_bits<Tiling::kThreads, kQueries, kKeys>(kept_of(stage), shape, sample, head, first_query, first_key);
    }
  };

  Step step = walk.first();
  key_tile.template load<Tiling::kThreads>(key_rows(shape, k, sample, kv_head), first_key);
  value_tile.template load<Tiling::kThreads>(key_rows(shape, v, sample, kv_head), first_key);
  load_step(step, 0);
  commit_copies();

  MatrixFragment<Tiling::kRowTiles, kWidth> key_sum;
  MatrixFragment<Tiling::kRowTiles, kWidth> value_sum;
  key_sum.clear();
  value_sum.clear();
  for (int stage = 0; !walk.is_end(step); stage ^= 1) {
    wait_copies<0>();
    __syncthreads();  // The tile is loaded, and all warps have read the last one.
    const Step next = walk.next(step);
    load_step(next, stage ^ 1);
    commit_copies();
    const QueryTile query_tile = query_tile_of(stage);
    const QueryTile gradient_tile = gradient_tile_of(stage);
    Scores scores = multiply_transposed<T, Tiling::kRowTiles>(key_tile, query_tile);
    if (!walk.is_whole(step)) hide<Rows::are_keys>(scores, shape, sample, step.first_query(), first_key);
    Scores value_products = multiply_transposed<T, Tiling::kRowTiles>(value_tile, gradient_tile);
    differentiate<Rows::are_keys, kKeys>(scores, value_products, shape, statistics_of(stage), kept_of(stage));
    multiply_add<T>(value_sum, scores, gradient_tile);
    multiply_add<T>(key_sum, value_products, query_tile);
    step = next;
  }
  wait_copies<0>();
  __syncthreads();

  const auto scale = shape.scale.as<float>();
  const auto kept_factor = shape.dropout.kept_factor.as<float>();
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
    key_sum.scale_row(r, scale);
    value_sum.scale_row(r, kept_factor);
  }
  const auto rows_of = [&](auto* all) { return key_rows(shape, all, sample, kv_head); };
  store_result(key_sum, key_tile, d_k, shape.f32_results, rows_of, first_key);
  store_result(value_sum, value_tile, d_v, shape.f32_results, rows_of, first_key);
}

}  // namespace strata::cuda
