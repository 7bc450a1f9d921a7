#include "kernels/attention_bias.cuh"
#include "kernels/attention_mask.cuh"
#include "kernels/attention_plain.cuh"
#include "kernels/attention_softmax.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

/// Distances of a block.
template <class Real>
inline constexpr int kBand = 2 * kPlainRows<Real>;

/// True if some query and key of two tiles have a distance of the band from `first` on.
template <class Real>
__device__ __forceinline__ bool touches_band(const AttentionShape& shape, const PositionSpan& queries,
                                             const PositionSpan& keys, std::int64_t first) {
  return bias_element(shape, queries.highest, keys.lowest) < first + kBand<Real> &&
         bias_element(shape, queries.lowest, keys.highest) >= first;
}

/// The gradient of the bias of one head for a band of distances. The block recomputes the gradients of the scores of
/// all samples, and adds those of a row of queries at a time, so the order of sums is fixed. Grid: bands, heads.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    attention_bias_gradient_kernel(const __grid_constant__ AttentionShape shape, const T* q, const T* k, const T* v,
                                   const QueryStatistic<Accumulate<T>>* statistics, const T* d_o) {
  using Real = Accumulate<T>;
  using Scores = PlainScores<Real>;
  constexpr int kTile = kPlainRows<Real>;
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t first = std::int64_t{blockIdx.x} * kBand<Real>;
  unsigned char* shared = dynamic_shared();
  const PlainMemory<Real> memory(shared);
  Real* sums = reinterpret_cast<Real*>(shared + PlainMemory<Real>::kBytes);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kBand<Real>) sums[thread] = 0;

  const auto add_tile = [&](int sample, int first_query, int first_key) {
    const HeadRows<const T> queries = query_rows(shape, q, sample, head);
    const HeadRows<const T> gradients = query_rows(shape, d_o, sample, head);
    const HeadRows<const T> keys = key_rows(shape, k, sample, head / shape.group());
    const HeadRows<const T> values = key_rows(shape, v, sample, head / shape.group());
    const bool has_dropout = shape.dropout.threshold != 0;
    __syncthreads();  // All threads have read the last tile's statistics, kept bits and gradients.
    load_statistics<kPlainThreads, kTile>(memory.statistics, statistics + shape.statistics(sample, head), first_query,
                                          shape.queries);
    commit_copies();
    load_places<Rows::are_queries>(memory.query_places, shape, sample, first_query);
    load_places<Rows::are_keys>(memory.key_places, shape, sample, first_key);
    if (has_dropout) {
      draw_kept_bits<kPlainThreads, kTile, kTile>(memory.kept, shape, sample, head, first_query, first_key);
    }
    Scores scores = multiply_transposed(memory, queries, first_query, keys, first_key);
    add_bias<Rows::are_queries, T>(scores, shape, head, first_query, first_key);
    hide<Rows::are_queries>(scores, shape, *memory.query_places, *memory.key_places);
    wait_copies<0>();
    // Its barriers show the statistics to all threads.
    Scores score_gradients = multiply_transposed(memory, gradients, first_query, values, first_key);
    differentiate<Rows::are_queries, kTile, true>(scores, score_gradients, shape, memory.statistics, memory.kept);
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
      for (int c = 0; c < Scores::kColumns; ++c) {
        memory.factor.row(Scores::row(r))[Scores::column(c)] = score_gradients.at(r, c);
      }
    }
    for (int r = 0; r < kTile && first_query + r < shape.queries; ++r) {
      __syncthreads();
      if (thread >= kTile || first_key + thread >= shape.keys) continue;
      // The keys of a query have different distances, so no two threads add to one.
      const std::int64_t element = bias_element(shape, shape.query_positions.global_index(first_query + r),
                                                shape.key_positions.global_index(first_key + thread));
      if (element >= first && element < first + kBand<Real>) sums[element - first] += memory.factor.row(r)[thread];
    }
  };

  for (int sample = 0; sample < shape.batch; ++sample) {
    for (int query = 0; query < shape.queries; query += kTile) {
      const PositionSpan queries = position_span(shape.query_positions, query, kTile);
      for (int key = 0; key < shape.keys; key += kTile) {
        const PositionSpan keys = position_span(shape.key_positions, key, kTile);
        if (!sees_some(shape, queries, keys) || !touches_band<Real>(shape, queries, keys, first)) continue;
        add_tile(sample, query, key);
      }
    }
  }
  __syncthreads();

  const std::int64_t elements = bias_elements(shape);
  if (thread >= kBand<Real> || first + thread >= elements) return;
  const std::int64_t at = head * elements + first + thread;
  if constexpr (!std::is_same_v<T, float>) {
    if (!shape.f32_results) {
      static_cast<T*>(shape.d_bias)[at] = narrow<T>(sums[thread]);
      return;
    }
  }
  static_cast<float*>(shape.d_bias)[at] = narrow<float>(sums[thread]);
}

template <class T>
void BiasGradient<T>::launch(const AttentionShape& shape, const GradientArguments<T>& given) {
  using Real = Accumulate<T>;
  static_assert(kBand<Real> <= kPlainThreads);
  Geometry geometry;
  geometry.grid = {blocks_for(bias_elements(shape), kBand<Real>), static_cast<unsigned>(shape.heads)};
  geometry.block = {kPlainThreads};
  geometry.shared_bytes = PlainMemory<Real>::kBytes + kBand<Real> * sizeof(Real);
  cuda::launch(attention_bias_gradient_kernel<T>, geometry, given.stream, shape, given.q, given.k, given.v,
               given.statistics, given.d_o);
}

template struct BiasGradient<float>;
template struct BiasGradient<BFloat16>;
template struct BiasGradient<Float16>;
template struct BiasGradient<double>;

}  // namespace strata::cuda
