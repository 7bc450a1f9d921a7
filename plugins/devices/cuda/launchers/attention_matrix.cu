#include <algorithm>

#include "kernels/attention_bias.cuh"
#include "kernels/attention_fragment.cuh"
#include "kernels/attention_softmax.cuh"
#include "launchers/attention_tiling.hpp"

namespace strata::cuda {

// Attention on tensor cores (Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
// 2023). Each block has a tile of queries or keys and loops over tiles of the other. It loads the next tile while it
// computes with the current one.

/// Grid: tiles of queries, heads, samples.
template <class T, class Tiling, bool IsGeneral>
__global__ void __launch_bounds__(Tiling::kThreads, IsGeneral ? 1 : Tiling::kBlocks)
    attention_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v, void* o,
                     float* log_sum_exponential) {
  constexpr int kThreads = Tiling::kThreads;
  constexpr int kQueries = Tiling::kRows;
  constexpr int kKeys = Tiling::kColumns;
  using KeyTile = SharedTile<T, kKeys, Tiling::kWidth>;
  using Scores = MatrixFragment<Tiling::kRowTiles, kKeys>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  // Under a causal mask the last queries see the most keys, so they start first.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;

  unsigned char* shared = dynamic_shared();
  const SharedTile<T, kQueries, Tiling::kWidth> query_tile(shared);
  unsigned char* stages = shared + Tiling::kRowBytes;
  const auto key_tile_of = [&](int stage) { return KeyTile(stages + 2 * stage * Tiling::kColumnBytes); };
  const auto value_tile_of = [&](int stage) { return KeyTile(stages + (2 * stage + 1) * Tiling::kColumnBytes); };
  auto& query_places = *reinterpret_cast<TilePlaces<kQueries>*>(stages + 4 * Tiling::kColumnBytes);
  auto* key_places = reinterpret_cast<TilePlaces<kKeys>*>(&query_places + 1);
  const auto kept_of = [&](int stage) {
    return reinterpret_cast<std::uint32_t*>(key_places + 2) + stage * Tiling::kKeptBytes / 4;
  };

  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  VisibleTiles<Rows::are_queries, kQueries, kKeys> visible(shape, first_query);
  const auto load_tile = [&](const auto& tile, int stage) {
    if (visible.is_end(tile)) return;
    const int first_key = tile.index * kKeys;
    if (!tile.is_whole) key_places[stage].template load<Rows::are_keys, kThreads>(shape, sample, first_key);
    key_tile_of(stage).template load<kThreads>(keys, first_key);
    value_tile_of(stage).template load<kThreads>(values, first_key);
    if (IsGeneral && shape.dropout.threshold != 0) {
      draw_kept_bits<kThreads, kQueries, kKeys>(kept_of(stage), shape, sample, head, first_query, first_key);
    }
  };

  auto tile = visible.next(0);
  query_places.template load<Rows::are_queries, kThreads>(shape, sample, first_query);
  query_tile.template load<kThreads>(query_rows(shape, q, sample, head), first_query);
  load_tile(tile, 0);
  commit_copies();

  MatrixFragment<Tiling::kRowTiles, Tiling::kWidth> output;
  output.clear();
  OnlineSoftmax<Scores> softmax(shape);
  for (int stage = 0; !visible.is_end(tile); stage ^= 1) {
    wait_copies<0>();
    publish_to_warpgroup_units();
    __syncthreads();  // The tile is loaded, and all warps have read the last one.
    const auto next = visible.next(tile.index + 1);
    load_tile(next, stage ^ 1);
    commit_copies();
    Scores scores = multiply_transposed<T, Tiling::kRowTiles>(query_tile, key_tile_of(stage));
    if constexpr (IsGeneral) {
      cap_scores(scores, shape);
      add_bias<Rows::are_queries, kQueries, kKeys, T>(scores, shape, head, first_query, tile.index * kKeys);
    }
    if (!tile.is_whole) hide<Rows::are_queries>(scores, shape, query_places, key_places[stage]);
    softmax.add(scores, output);
    if (IsGeneral && shape.dropout.threshold != 0) drop<kKeys>(scores, kept_of(stage));
    multiply_add<T>(output, scores, value_tile_of(stage));
    tile = next;
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

/// The gradients of keys and values. The queries of all heads that read the block's keys are its columns. Scores are
/// computed transposed, because their register layout is then that of the left factors of both gradients. Grid: tiles
/// of keys, heads of keys, samples.
template <class T, class Tiling, bool IsGeneral>
__global__ void __launch_bounds__(Tiling::kThreads, IsGeneral ? 1 : Tiling::kBlocks)
    attention_key_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v,
                                  const QueryStatistic<float>* statistics, const T* d_o, void* d_k, void* d_v) {
  constexpr int kThreads = Tiling::kThreads;
  constexpr int kKeys = Tiling::kRows;
  constexpr int kQueries = Tiling::kColumns;
  using KeyTile = SharedTile<T, kKeys, Tiling::kWidth>;
  using QueryTile = SharedTile<T, kQueries, Tiling::kWidth>;
  using Scores = MatrixFragment<Tiling::kRowTiles, kQueries>;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_key = static_cast<int>(blockIdx.x) * kKeys;

  unsigned char* shared = dynamic_shared();
  const KeyTile key_tile(shared);
  const KeyTile value_tile(shared + Tiling::kRowBytes);
  unsigned char* stages = shared + 2 * Tiling::kRowBytes;
  unsigned char* after_stages = stages + 4 * Tiling::kColumnBytes;
  const auto query_tile_of = [&](int stage) { return QueryTile(stages + 2 * stage * Tiling::kColumnBytes); };
  const auto gradient_tile_of = [&](int stage) { return QueryTile(stages + (2 * stage + 1) * Tiling::kColumnBytes); };
  const auto statistics_of = [&](int stage) {
    return reinterpret_cast<QueryStatistic<float>*>(after_stages + stage * Tiling::kColumnStatisticsBytes);
  };
  auto& key_places = *reinterpret_cast<TilePlaces<kKeys>*>(statistics_of(2));
  auto* query_places = reinterpret_cast<TilePlaces<kQueries>*>(&key_places + 1);
  const auto kept_of = [&](int stage) {
    return reinterpret_cast<std::uint32_t*>(query_places + 2) + stage * Tiling::kKeptBytes / 4;
  };

  using Walk = QueryWalk<kQueries, kKeys>;
  Walk walk(shape, first_key, kv_head);
  const auto load_step = [&](const typename Walk::Step& step, int stage) {
    if (walk.is_end(step)) return;
    const int head = step.head;
    const int first_query = step.first_query();
    if (!step.is_whole) query_places[stage].template load<Rows::are_queries, kThreads>(shape, sample, first_query);
    query_tile_of(stage).template load<kThreads>(query_rows(shape, q, sample, head), first_query);
    gradient_tile_of(stage).template load<kThreads>(query_rows(shape, d_o, sample, head), first_query);
    load_statistics<kThreads, kQueries>(statistics_of(stage), statistics + shape.statistics(sample, head), first_query,
                                        shape.queries);
    if (IsGeneral && shape.dropout.threshold != 0) {
      draw_kept_bits<kThreads, kQueries, kKeys>(kept_of(stage), shape, sample, head, first_query, first_key);
    }
  };

  typename Walk::Step step = walk.first();
  key_places.template load<Rows::are_keys, kThreads>(shape, sample, first_key);
  key_tile.template load<kThreads>(key_rows(shape, k, sample, kv_head), first_key);
  value_tile.template load<kThreads>(key_rows(shape, v, sample, kv_head), first_key);
  load_step(step, 0);
  commit_copies();

  MatrixFragment<Tiling::kRowTiles, Tiling::kWidth> key_sum;
  MatrixFragment<Tiling::kRowTiles, Tiling::kWidth> value_sum;
  key_sum.clear();
  value_sum.clear();
  for (int stage = 0; !walk.is_end(step); stage ^= 1) {
    wait_copies<0>();
    publish_to_warpgroup_units();
    __syncthreads();  // The tile is loaded, and all warps have read the last one.
    const typename Walk::Step next = walk.next(step);
    load_step(next, stage ^ 1);
    commit_copies();
    const QueryTile query_tile = query_tile_of(stage);
    const QueryTile gradient_tile = gradient_tile_of(stage);
    Scores scores = multiply_transposed<T, Tiling::kRowTiles>(key_tile, query_tile);
    if constexpr (IsGeneral) {
      cap_scores(scores, shape);
      add_bias<Rows::are_keys, kQueries, kKeys, T>(scores, shape, step.head, step.first_query(), first_key);
    }
    if (!step.is_whole) hide<Rows::are_keys>(scores, shape, key_places, query_places[stage]);
    Scores value_products = multiply_transposed<T, Tiling::kRowTiles>(value_tile, gradient_tile);
    differentiate<Rows::are_keys, kKeys, IsGeneral>(scores, value_products, shape, statistics_of(stage),
                                                    kept_of(stage));
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

/// The gradient of queries. This kernel and that of key gradients both recompute probabilities, so that no two blocks
/// add to the same number and sums have one order. Grid: tiles of queries, heads, samples.
template <class T, class Tiling, bool IsGeneral>
__global__ void __launch_bounds__(Tiling::kThreads, IsGeneral ? 1 : Tiling::kBlocks)
    attention_query_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v,
                                    const QueryStatistic<float>* statistics, const T* d_o, void* d_q,
                                    [[maybe_unused]] float* bias_sums) {
  constexpr int kThreads = Tiling::kThreads;
  constexpr int kQueries = Tiling::kRows;
  constexpr int kKeys = Tiling::kColumns;
  using KeyTile = SharedTile<T, kKeys, Tiling::kWidth>;
  using QueryTile = SharedTile<T, kQueries, Tiling::kWidth>;
  using Scores = MatrixFragment<Tiling::kRowTiles, kKeys>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;

  unsigned char* shared = dynamic_shared();
  const QueryTile query_tile(shared);
  const QueryTile gradient_tile(shared + Tiling::kRowBytes);
  unsigned char* stages = shared + 2 * Tiling::kRowBytes;
  unsigned char* after_stages = stages + 4 * Tiling::kColumnBytes;
  auto* own_statistics = reinterpret_cast<QueryStatistic<float>*>(after_stages);
  const auto key_tile_of = [&](int stage) { return KeyTile(stages + 2 * stage * Tiling::kColumnBytes); };
  const auto value_tile_of = [&](int stage) { return KeyTile(stages + (2 * stage + 1) * Tiling::kColumnBytes); };
  auto& query_places = *reinterpret_cast<TilePlaces<kQueries>*>(own_statistics + kQueries);
  auto* key_places = reinterpret_cast<TilePlaces<kKeys>*>(&query_places + 1);
  const auto kept_of = [&](int stage) {
    return reinterpret_cast<std::uint32_t*>(key_places + 2) + stage * Tiling::kKeptBytes / 4;
  };

  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  VisibleTiles<Rows::are_queries, kQueries, kKeys> visible(shape, first_query);
  const auto load_tile = [&](const auto& tile, int stage) {
    if (visible.is_end(tile)) return;
    const int first_key = tile.index * kKeys;
    if (!tile.is_whole) key_places[stage].template load<Rows::are_keys, kThreads>(shape, sample, first_key);
    key_tile_of(stage).template load<kThreads>(keys, first_key);
    value_tile_of(stage).template load<kThreads>(values, first_key);
    if (IsGeneral && shape.dropout.threshold != 0) {
      draw_kept_bits<kThreads, kQueries, kKeys>(kept_of(stage), shape, sample, head, first_query, first_key);
    }
  };

  auto tile = visible.next(0);
  query_places.template load<Rows::are_queries, kThreads>(shape, sample, first_query);
  query_tile.template load<kThreads>(query_rows(shape, q, sample, head), first_query);
  gradient_tile.template load<kThreads>(query_rows(shape, d_o, sample, head), first_query);
  load_statistics<kThreads, kQueries>(own_statistics, statistics + shape.statistics(sample, head), first_query,
                                      shape.queries);
  load_tile(tile, 0);
  commit_copies();

  if constexpr (IsGeneral) {
    if (bias_sums != nullptr) bias_sums = clear_bias_sums<kThreads>(bias_sums, shape);
  }
  MatrixFragment<Tiling::kRowTiles, Tiling::kWidth> sum;
  sum.clear();
  for (int stage = 0; !visible.is_end(tile); stage ^= 1) {
    wait_copies<0>();
    publish_to_warpgroup_units();
    __syncthreads();  // The tile is loaded, and all warps have read the last one.
    const auto next = visible.next(tile.index + 1);
    load_tile(next, stage ^ 1);
    commit_copies();
    Scores scores = multiply_transposed<T, Tiling::kRowTiles>(query_tile, key_tile_of(stage));
    if constexpr (IsGeneral) {
      cap_scores(scores, shape);
      add_bias<Rows::are_queries, kQueries, kKeys, T>(scores, shape, head, first_query, tile.index * kKeys);
    }
    if (!tile.is_whole) hide<Rows::are_queries>(scores, shape, query_places, key_places[stage]);
    Scores value_products = multiply_transposed<T, Tiling::kRowTiles>(gradient_tile, value_tile_of(stage));
    differentiate<Rows::are_queries, kKeys, IsGeneral>(scores, value_products, shape, own_statistics, kept_of(stage));
    multiply_add<T>(sum, value_products, key_tile_of(stage));
    if constexpr (IsGeneral) {
      if (bias_sums != nullptr) {
        static_assert(2 * Tiling::kColumnBytes >= sizeof(float) * kQueries * kKeys);
        auto* staging = reinterpret_cast<float*>(stages + 2 * stage * Tiling::kColumnBytes);
        add_bias_gradient<kThreads, kQueries, kKeys>(bias_sums, staging, value_products, shape, first_query,
                                                     tile.index * kKeys);
      }
    }
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

/// Calls function.operator()<IsGeneral>(). Only the general kernels know dropout, caps and biases, which take
/// registers.
template <class Function>
void with_generality(const AttentionShape& shape, const Function& function) {
  const bool is_general = shape.dropout.threshold != 0 || shape.product_cap.wide != 0 || shape.bias != nullptr;
  if (is_general) return function.template operator()<true>();
  function.template operator()<false>();
}

template <class T, int Width, int Columns>
std::size_t MatrixUnits<T, Width, Columns>::shared_bytes(bool is_general) {
  using Tilings = AttentionTilings<Width, Columns>;
  return std::max({Tilings::Forward::forward_bytes(is_general),
                   Tilings::QueryGradient::query_gradient_bytes(is_general),
                   Tilings::KeyGradient::key_gradient_bytes(is_general)});
}

template <class T, int Width, int Columns>
int MatrixUnits<T, Width, Columns>::query_gradient_rows() {
  return AttentionTilings<Width, Columns>::QueryGradient::kRows;
}

template <class T, int Width, int Columns>
void MatrixUnits<T, Width, Columns>::forward(const AttentionPlan& plan, const KernelArguments& arguments) {
  using Tiling = typename AttentionTilings<Width, Columns>::Forward;
  const AttentionShape shape = plan.at(arguments);
  with_generality(shape, [&]<bool IsGeneral>() {
    launch(attention_kernel<T, Tiling, IsGeneral>,
           plan.by_queries(Tiling::kRows, Tiling::kThreads, Tiling::forward_bytes(IsGeneral)), arguments.stream, shape,
           in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2), arguments.results[0],
           out<float>(arguments, 1));
  });
}

template <class T, int Width, int Columns>
void MatrixUnits<T, Width, Columns>::gradient(const AttentionPlan& plan, const AttentionShape& shape,
                                              const GradientArguments<T>& given) {
  using Queries = typename AttentionTilings<Width, Columns>::QueryGradient;
  using Keys = typename AttentionTilings<Width, Columns>::KeyGradient;
  with_generality(shape, [&]<bool IsGeneral>() {
    launch(attention_query_gradient_kernel<T, Queries, IsGeneral>,
           plan.by_queries(Queries::kRows, Queries::kThreads, Queries::query_gradient_bytes(IsGeneral)), given.stream,
           shape, given.q, given.k, given.v, given.statistics, given.d_o, given.d_q, given.bias_sums);
    launch(attention_key_gradient_kernel<T, Keys, IsGeneral>,
           plan.by_keys(Keys::kRows, Keys::kThreads, Keys::key_gradient_bytes(IsGeneral)), given.stream, shape, given.q,
           given.k, given.v, given.statistics, given.d_o, given.d_k, given.d_v);
  });
}

template struct MatrixUnits<BFloat16, kNarrowHead, 64>;
template struct MatrixUnits<BFloat16, kWideHead, 64>;
template struct MatrixUnits<BFloat16, kWideHead, 32>;
template struct MatrixUnits<Float16, kNarrowHead, 64>;
template struct MatrixUnits<Float16, kWideHead, 64>;
template struct MatrixUnits<Float16, kWideHead, 32>;

}  // namespace strata::cuda
