#include "kernels/attention_bias.cuh"
#include "kernels/attention_mask.cuh"
#include "kernels/attention_plain.cuh"
#include "kernels/attention_softmax.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

// Attention and its gradients without tensor cores, with the same order of tiles as on tensor cores.

/// Grid: tiles of queries, heads, samples.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    attention_plain_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v, void* o,
                           Accumulate<T>* log_sum_exponential) {
  using Real = Accumulate<T>;
  using Scores = PlainScores<Real>;
  constexpr int kTile = kPlainRows<Real>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  const PlainMemory<Real> memory(dynamic_shared());
  const HeadRows<const T> queries = query_rows(shape, q, sample, head);
  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  VisibleTiles<Rows::are_queries, kTile, kTile> visible(shape, first_query);
  load_places<Rows::are_queries>(memory.query_places, shape, sample, first_query);

  PlainSum<Real> output;
  output.clear();
  OnlineSoftmax<Scores> softmax(shape);
  for (auto tile = visible.next(0); !visible.is_end(tile); tile = visible.next(tile.index + 1)) {
    const int first_key = tile.index * kTile;
    if (!tile.is_whole) load_places<Rows::are_keys>(memory.key_places, shape, sample, first_key);
    Scores scores = multiply_transposed(memory, queries, first_query, keys, first_key);
    cap_scores(scores, shape);
    add_bias<Rows::are_queries, kTile, kTile, T>(scores, shape, head, first_query, first_key);
    if (!tile.is_whole) hide<Rows::are_queries>(scores, shape, *memory.query_places, *memory.key_places);
    softmax.add(scores, output);
    if (shape.dropout.threshold != 0) {
      draw_kept_bits<kPlainThreads, kTile, kTile>(memory.kept, shape, sample, head, first_query, first_key);
      __syncthreads();
      drop<kTile>(scores, memory.kept);
    }
    multiply_add(output, memory, scores, values, first_key);
  }

  softmax.finish();
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
    output.scale_row(r, softmax.normalizer(r) * shape.dropout.kept_factor.template as<Real>());
    const int query = first_query + Scores::row(r);
    if (plain_column() == 0 && query < shape.queries) {
      log_sum_exponential[shape.statistics(sample, head) + query] = softmax.log_sum_exponential(r);
    }
  }
  store_result<T>(
      output, o, shape.f32_results, [&](auto* all) { return query_rows(shape, all, sample, head); }, first_query);
}

/// Grid: tiles of queries, heads, samples.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    attention_plain_query_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k,
                                          const T* v, const QueryStatistic<Accumulate<T>>* statistics, const T* d_o,
                                          void* d_q, Accumulate<T>* bias_sums) {
  using Real = Accumulate<T>;
  using Scores = PlainScores<Real>;
  constexpr int kTile = kPlainRows<Real>;
  const int head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  const PlainMemory<Real> memory(dynamic_shared());
  const HeadRows<const T> queries = query_rows(shape, q, sample, head);
  const HeadRows<const T> gradients = query_rows(shape, d_o, sample, head);
  const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
  const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
  VisibleTiles<Rows::are_queries, kTile, kTile> visible(shape, first_query);
  load_places<Rows::are_queries>(memory.query_places, shape, sample, first_query);
  load_statistics<kPlainThreads, kTile>(memory.statistics, statistics + shape.statistics(sample, head), first_query,
                                        shape.queries);
  commit_copies();
  wait_copies<0>();

  const bool has_dropout = shape.dropout.threshold != 0;
  if (bias_sums != nullptr) bias_sums = clear_bias_sums<kPlainThreads>(bias_sums, shape);
  PlainSum<Real> sum;
  sum.clear();
  for (auto tile = visible.next(0); !visible.is_end(tile); tile = visible.next(tile.index + 1)) {
    const int first_key = tile.index * kTile;
    if (!tile.is_whole) load_places<Rows::are_keys>(memory.key_places, shape, sample, first_key);
    Scores scores = multiply_transposed(memory, queries, first_query, keys, first_key);
    cap_scores(scores, shape);
    add_bias<Rows::are_queries, kTile, kTile, T>(scores, shape, head, first_query, first_key);
    if (!tile.is_whole) hide<Rows::are_queries>(scores, shape, *memory.query_places, *memory.key_places);
    if (has_dropout) {
      draw_kept_bits<kPlainThreads, kTile, kTile>(memory.kept, shape, sample, head, first_query, first_key);
    }
    Scores value_products = multiply_transposed(memory, gradients, first_query, values, first_key);
    differentiate<Rows::are_queries, kTile, true>(scores, value_products, shape, memory.statistics, memory.kept);
    if (bias_sums != nullptr) {
      add_bias_gradient<kPlainThreads, kTile, kTile>(bias_sums, memory.factor.elements, value_products, shape,
                                                     first_query, first_key);
    }
    multiply_add(sum, memory, value_products, keys, first_key);
  }
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) sum.scale_row(r, shape.scale.template as<Real>());
  store_result<T>(
      sum, d_q, shape.f32_results, [&](auto* all) { return query_rows(shape, all, sample, head); }, first_query);
}

/// Grid: tiles of keys, heads of keys, samples.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    attention_plain_key_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k,
                                        const T* v, const QueryStatistic<Accumulate<T>>* statistics, const T* d_o,
                                        void* d_k, void* d_v) {
  using Real = Accumulate<T>;
  using Scores = PlainScores<Real>;
  constexpr int kTile = kPlainRows<Real>;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int sample = static_cast<int>(blockIdx.z);
  const int first_key = static_cast<int>(blockIdx.x) * kTile;
  const PlainMemory<Real> memory(dynamic_shared());
  const HeadRows<const T> keys = key_rows(shape, k, sample, kv_head);
  const HeadRows<const T> values = key_rows(shape, v, sample, kv_head);
  using Walk = QueryWalk<kTile, kTile>;
  Walk walk(shape, first_key, kv_head);
  load_places<Rows::are_keys>(memory.key_places, shape, sample, first_key);

  const bool has_dropout = shape.dropout.threshold != 0;
  PlainSum<Real> key_sum;
  PlainSum<Real> value_sum;
  key_sum.clear();
  value_sum.clear();
  for (typename Walk::Step step = walk.first(); !walk.is_end(step); step = walk.next(step)) {
    const int first_query = step.first_query();
    const HeadRows<const T> queries = query_rows(shape, q, sample, step.head);
    const HeadRows<const T> gradients = query_rows(shape, d_o, sample, step.head);
    __syncthreads();  // All threads have read the last tile's statistics and kept bits.
    if (!step.is_whole) load_places<Rows::are_queries>(memory.query_places, shape, sample, first_query);
    load_statistics<kPlainThreads, kTile>(memory.statistics, statistics + shape.statistics(sample, step.head),
                                          first_query, shape.queries);
    commit_copies();
    wait_copies<0>();
    if (has_dropout) {
      draw_kept_bits<kPlainThreads, kTile, kTile>(memory.kept, shape, sample, step.head, first_query, first_key);
    }
    Scores scores = multiply_transposed(memory, keys, first_key, queries, first_query);
    cap_scores(scores, shape);
    add_bias<Rows::are_keys, kTile, kTile, T>(scores, shape, step.head, first_query, first_key);
    if (!step.is_whole) hide<Rows::are_keys>(scores, shape, *memory.key_places, *memory.query_places);
    Scores value_products = multiply_transposed(memory, values, first_key, gradients, first_query);
    differentiate<Rows::are_keys, kTile, true>(scores, value_products, shape, memory.statistics, memory.kept);
    multiply_add(value_sum, memory, scores, gradients, first_query);
    multiply_add(key_sum, memory, value_products, queries, first_query);
  }
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
    key_sum.scale_row(r, shape.scale.template as<Real>());
    value_sum.scale_row(r, shape.dropout.kept_factor.template as<Real>());
  }
  const auto rows_of = [&](auto* all) { return key_rows(shape, all, sample, kv_head); };
  store_result<T>(key_sum, d_k, shape.f32_results, rows_of, first_key);
  store_result<T>(value_sum, d_v, shape.f32_results, rows_of, first_key);
}

static_assert(kWidestHead == kPlainWidth);

template <class T>
int PlainUnits<T>::query_gradient_rows() {
  return kPlainRows<Accumulate<T>>;
}

template <class T>
void PlainUnits<T>::forward(const AttentionPlan& plan, const KernelArguments& arguments) {
  using Real = Accumulate<T>;
  launch(attention_plain_kernel<T>, plan.by_queries(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes),
         arguments.stream, plan.at(arguments), in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2),
         arguments.results[0], out<Real>(arguments, 1));
}

template <class T>
void PlainUnits<T>::gradient(const AttentionPlan& plan, const AttentionShape& shape,
                             const GradientArguments<T>& given) {
  using Real = Accumulate<T>;
  launch(attention_plain_query_gradient_kernel<T>,
         plan.by_queries(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes), given.stream, shape, given.q,
         given.k, given.v, given.statistics, given.d_o, given.d_q, given.bias_sums);
  launch(attention_plain_key_gradient_kernel<T>,
         plan.by_keys(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes), given.stream, shape, given.q,
         given.k, given.v, given.statistics, given.d_o, given.d_k, given.d_v);
}

template struct PlainUnits<float>;
template struct PlainUnits<BFloat16>;
template struct PlainUnits<Float16>;
template struct PlainUnits<double>;

}  // namespace strata::cuda
