#pragma once

#include "kernels/attention_dropout.cuh"
#include "kernels/attention_mask.cuh"
#include "kernels/attention_softmax.cuh"
#include "kernels/attention_store.cuh"

/// \file
/// Attention on tensor cores (Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
/// 2023). Each block has a tile of queries and loops over tiles of keys and values.

namespace strata::cuda {

template <int Width>
struct AttentionTiling {
  static constexpr int kWidth = Width;
  static constexpr int kThreads = 128;
  /// Two tiles of 16 rows per warp, so that each loaded fragment of keys and values is used twice.
  static constexpr int kRowTiles = 2;
  static constexpr int kQueries = kThreads / kWarpSize * 16 * kRowTiles;
  /// Keys of a tile, limited by registers.
  static constexpr int kKeys = Width > 96 ? 32 : 64;

  static constexpr std::size_t kQueryBytes = std::size_t{kQueries} * Width * 2;
  static constexpr std::size_t kKeyBytes = std::size_t{kKeys} * Width * 2;
  static constexpr std::size_t kKeptBytes = std::size_t{kQueries} * kKeptWords<kKeys> * 4;
  static constexpr std::size_t kSharedBytes = kQueryBytes + 2 * kKeyBytes + kKeptBytes;
};

/// Grid: tiles of queries, heads, samples.
template <class T, class Tiling>
__global__ void __launch_bounds__(Tiling::kThreads)
    attention_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v, void* o,
                     float* log_sum_exponential) {
  constexpr int kWidth = Tiling::kWidth;
  constexpr int kKeys = Tiling::kKeys;
  using Scores = MatrixFragment<Tiling::kRowTiles, kKeys>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  // Under a causal mask the last queries see the most keys, so they start first.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Tiling::kQueries;

  unsigned char* shared = dynamic_shared();
  const SharedTile<T, Tiling::kQueries, kWidth> query_tile(shared);
  const SharedTile<T, kKeys, kWidth> key_tile(shared + Tiling::kQueryBytes);
  const SharedTile<T, kKeys, kWidth> value_tile(shared + Tiling::kQueryBytes + Tiling::kKeyBytes);
  auto* kept = reinterpret_cast<std::uint32_t*>(shared + Tiling::kQueryBytes + 2 * Tiling::kKeyBytes);

  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  const VisibleKeys<Tiling::kQueries, kKeys> visible(shape, first_query);
  const bool has_dropout = shape.dropout.threshold != 0;

  MatrixFragment<Tiling::kRowTiles, kWidth> output;
  output.clear();
  OnlineSoftmax<Scores> softmax(shape);

  int tile = visible.next(0);
  query_tile.template load<Tiling::kThreads>(query_rows(shape, q, sample, head), first_query);
  if (tile < visible.count()) key_tile.template load<Tiling::kThreads>(keys, tile * kKeys);
  commit_copies();
  while (tile < visible.count()) {
    const int first_key = tile * kKeys;
    wait_copies<0>();
    __syncthreads();  // The keys are loaded, and all warps have read the last tile's values and kept bits.
    value_tile.template load<Tiling::kThreads>(values, first_key);
    commit_copies();
    if (has_dropout) {
      draw_kept_bits<Tiling::kThreads, Tiling::kQueries, kKeys>(kept, shape, sample, head, first_query, first_key);
    }
    Scores scores = multiply_transposed<T, Tiling::kRowTiles>(query_tile, key_tile);
    if (!visible.is_whole(tile)) hide<Rows::are_queries>(scores, shape, sample, first_query, first_key);
    softmax.add(scores, output);

    wait_copies<0>();
    __syncthreads();  // The values and kept bits are loaded, and all warps have read the keys.
    tile = visible.next(tile + 1);
    if (tile < visible.count()) key_tile.template load<Tiling::kThreads>(keys, tile * kKeys);
    commit_copies();
    if (has_dropout) drop<kKeys>(scores, kept);
    multiply_add<T>(output, scores, value_tile);
  }
  wait_copies<0>();
  __syncthreads();

  softmax.finish();
  const auto kept_factor = shape.dropout.kept_factor.as<float>();
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
    output.scale_row(r, softmax.normalizer(r) * kept_factor);
    const int query = first_query + Scores::row(r);
    if (Scores::lane() % Scores::kLanesPerRow == 0 && query < shape.queries) {
      log_sum_exponential[shape.statistics(sample, head) + query] = softmax.log_sum_exponential(r);
    }
  }
  store_result(
      output, query_tile, o, shape.f32_results, [&](auto* all) { return query_rows(shape, all, sample, head); },
      first_query);
}

}  // namespace strata::cuda
