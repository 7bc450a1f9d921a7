#pragma once

#include "kernels/attention_mask.cuh"
#include "kernels/attention_softmax.cuh"
#include "language/math.hpp"

/// \file
/// The gradient of attention from scores to probabilities and back. With probabilities p = exp(score - log-sum-exp),
/// dropout factors m and D = d_o · o (the sum of p m (d_o · v) over all keys, also those of other ranks):
/// d_v = Σ p m d_o, d_score = p (m (d_o · v) - D), d_q = scale Σ d_score k, d_k = scale Σ d_score q.

namespace strata::cuda {

/// Statistics of the queries of a tile in shared memory, which the gradient needs.
template <class Real, int Queries>
struct QueryStatistics {
  /// Log-sum-exp to base two. Infinite if a query sees no key or is past the end, so that its probabilities are 0.
  Real* log_sums;
  /// D of each query.
  Real* products;

  static constexpr std::size_t kBytes = 2 * sizeof(Real) * Queries;

  __device__ __forceinline__ explicit QueryStatistics(void* memory)
      : log_sums(static_cast<Real*>(memory)), products(static_cast<Real*>(memory) + Queries) {}

  /// Loads the statistics. `log_sum_exponential` and `product` hold those of all queries of the head.
  template <int Threads>
  __device__ __forceinline__ void load(const Real* log_sum_exponential, const Real* product, int first,
                                       int count) const {
    for (int i = recomputed(static_cast<int>(threadIdx.x)); i < Queries; i += Threads) {
      const bool is_there = first + i < count;
      const Real log_sum = is_there ? log_sum_exponential[first + i] : -static_cast<Real>(INFINITY);
      log_sums[i] =
          log_sum == -static_cast<Real>(INFINITY) ? static_cast<Real>(INFINITY) : log_sum * static_cast<Real>(kLog2E);
      products[i] = is_there ? product[first + i] : Real{0};
    }
  }
};

/// Replaces the scores of a tile by p, and d_o · v by d_score. With dropout, replaces the scores by p m without m's
/// constant factor.
template <Rows Meaning, int Keys, class Scores, class Statistics>
__device__ __forceinline__ void differentiate(Scores& scores, Scores& value_products, const AttentionShape& shape,
                                              const Statistics& statistics, const std::uint32_t* kept) {
  using Real = typename Scores::Real;
  const auto binary_scale = shape.binary_scale.template as<Real>();
  const auto kept_factor = shape.dropout.kept_factor.template as<Real>();
  const bool has_dropout = shape.dropout.threshold != 0;
  constexpr bool kQueryRows = Meaning == Rows::are_queries;
#pragma unroll
  for (int i = 0; i < (kQueryRows ? Scores::kRows : Scores::kColumns); ++i) {
    const int query = recomputed(kQueryRows ? Scores::row(i) : Scores::column(i));
    const Real log_sum = statistics.log_sums[query];
    const Real product = statistics.products[query];
#pragma unroll
    for (int j = 0; j < (kQueryRows ? Scores::kColumns : Scores::kRows); ++j) {
      const int key = kQueryRows ? Scores::column(j) : recomputed(Scores::row(j));
      Real& score = kQueryRows ? scores.at(i, j) : scores.at(j, i);
      Real& value_product = kQueryRows ? value_products.at(i, j) : value_products.at(j, i);
      const Real probability = fast_exp2(score * binary_scale - log_sum);
      const bool keeps = !has_dropout || is_kept<Keys>(kept, query, key);
      score = keeps ? probability : Real{0};
      value_product = probability * ((keeps ? value_product * kept_factor : Real{0}) - product);
    }
  }
}

}  // namespace strata::cuda
