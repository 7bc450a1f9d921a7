#include <algorithm>

#include "kernels/attention_bias.cuh"
#include "kernels/attention_fragment.cuh"
#include "kernels/attention_mask.cuh"
#include "kernels/attention_softmax.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

// Attention on tensor cores (Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
// 2023). Each block has a tile of queries and loops over tiles of keys and values.

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
    add_bias<Rows::are_queries, T>(scores, shape, head, first_query, first_key);
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

// The gradients of keys and values on tensor cores. Each block has a tile of keys and loops over tiles of the queries
// of all heads that read these keys. Scores are computed transposed, because their register layout is then that of the
// left factors of both gradients.

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
    add_bias<Rows::are_keys, T>(scores, shape, step.head, step.first_query(), first_key);
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

// The gradient of queries on tensor cores. Each block has a tile of queries and loops over tiles of keys and values.
// It loads the next tile while it computes with the current one. This kernel and that of key gradients both recompute
// probabilities, so that no two blocks add to the same number and sums have one order.

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
    add_bias<Rows::are_queries, T>(scores, shape, head, first_query, tile * kKeys);
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

template <class T, int Width>
bool MatrixUnits<T, Width>::fits(const GpuEnvironment& environment) {
  return std::max({AttentionTiling<Width>::kSharedBytes, QueryGradientTiling<Width>::kSharedBytes,
                   KeyGradientTiling<Width>::kSharedBytes}) <= environment.shared_bytes_per_block();
}

template <class T, int Width>
void MatrixUnits<T, Width>::forward(const AttentionPlan& plan, const KernelArguments& arguments) {
  using Tiling = AttentionTiling<Width>;
  launch(attention_kernel<T, Tiling>, plan.by_queries(Tiling::kQueries, Tiling::kThreads, Tiling::kSharedBytes),
         arguments.stream, plan.at(arguments), in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2),
         arguments.results[0], out<float>(arguments, 1));
}

template <class T, int Width>
void MatrixUnits<T, Width>::gradient(const AttentionPlan& plan, const AttentionShape& shape,
                                     const GradientArguments<T>& given) {
  using Queries = QueryGradientTiling<Width>;
  using Keys = KeyGradientTiling<Width>;
  launch(attention_query_gradient_kernel<T, Queries>,
         plan.by_queries(Queries::kQueries, Queries::kThreads, Queries::kSharedBytes), given.stream, shape, given.q,
         given.k, given.v, given.log_sum_exponential, given.d_o, given.products, given.d_q);
  launch(attention_key_gradient_kernel<T, Keys>, plan.by_keys(Keys::kKeys, Keys::kThreads, Keys::kSharedBytes),
         given.stream, shape, given.q, given.k, given.v, given.log_sum_exponential, given.d_o, given.products,
         given.d_k, given.d_v);
}

template struct MatrixUnits<BFloat16, kNarrowHead>;
template struct MatrixUnits<BFloat16, kWideHead>;
template struct MatrixUnits<Float16, kNarrowHead>;
template struct MatrixUnits<Float16, kWideHead>;

}  // namespace strata::cuda
