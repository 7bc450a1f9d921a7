#pragma once

#include "kernels/attention_mask.cuh"
#include "kernels/attention_shape.cuh"
#include "kernels/soft_cap.cuh"
#include "language/language.hpp"

namespace strata::cuda {

// The softmax of rows whose scores are computed tile by tile (Milakov and Gimelshein, "Online normalizer calculation
// for softmax", 2018). Exponentials are powers of two.

// The mask of dropout for the probabilities of a tile, as bits in shared memory. One block of random words serves four
// neighbouring keys of a query. No layout of scores in registers gives these four to one thread, so threads exchange
// the bits through shared memory.

/// Number of words with one query's bits in a tile, 32 keys per word.
template <int Keys>
inline constexpr int kKeptWords = Keys / 32;

/// The dropout bits of one head's probabilities.
class KeptBits {
 public:
  __device__ __forceinline__ KeptBits(const AttentionShape& shape, int sample, int head)
      : shape_(shape), key_(shape.dropout.stream.key()) {
    const AttentionDropout& dropout = shape.dropout;
    const std::int64_t global_head =
        dropout.samples.global_index(sample) * dropout.heads.global_size + dropout.heads.global_index(head);
    first_row_ = global_head * shape.query_positions.global_size;
  }

  /// Bit i is set if the probability of key `first_key` + i is kept.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t word(int query, int first_key) const {
    const DimIndexMap& keys = shape_.key_positions;
    const std::int64_t row = (first_row_ + shape_.query_positions.global_index(query)) * keys.global_size;
    const std::int64_t position = keys.global_index(first_key);
    if (keys.global_index(first_key + 31) == position + 31) return run(row + position);
    std::uint32_t kept = 0;
    for (int i = 0; i < 32; ++i) {
      const std::int64_t index = row + keys.global_index(first_key + i);
      kept |= (four(index / 4) >> (index % 4) & 1U) << i;
    }
    return kept;
  }

 private:
  /// Four bits from one block of random words.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t four(std::int64_t block) const {
    const RandomWords drawn = philox(key_, static_cast<std::uint64_t>(block));
    std::uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // An if statement, because GCC 12's shift sanitizer reads an unset i if the shifted number is this condition.
      if (drawn.words[i] >= shape_.dropout.threshold) kept |= 1U << i;
    }
    return kept;
  }

  /// The bits of 32 neighbours in the random stream.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t run(std::int64_t index) const {
    const int skipped = static_cast<int>(index % 4);
    const int blocks = skipped == 0 ? 8 : 9;
    std::uint64_t kept = 0;
#pragma unroll 1
    for (int i = 0; i < blocks; ++i) kept |= std::uint64_t{four(index / 4 + i)} << (4 * i);
    return static_cast<std::uint32_t>(kept >> skipped);
  }

  const AttentionShape& shape_;
  std::uint64_t key_;
  std::int64_t first_row_;
};

/// Draws the bits of a tile into kept[Queries][kKeptWords<Keys>]. All threads of the block take part.
template <int Threads, int Queries, int Keys>
__device__ __forceinline__ void draw_kept_bits(std::uint32_t* kept, const AttentionShape& shape, int sample, int head,
                                               int first_query, int first_key) {
  const KeptBits bits(shape, sample, head);
  constexpr int kWords = kKeptWords<Keys>;
  for (int i = recomputed(static_cast<int>(threadIdx.x)); i < Queries * kWords; i += Threads) {
    const int query = first_query + i / kWords;
    const int key = first_key + i % kWords * 32;
    if (query < shape.queries && key < shape.keys) kept[i] = bits.word(query, key);
  }
}

/// True if the probability of a query and a key of the tile is kept.
template <int Keys>
__device__ __forceinline__ bool is_kept(const std::uint32_t* kept, int query, int key) {
  return (kept[query * kKeptWords<Keys> + key / 32] >> (key % 32) & 1U) != 0;
}

/// Sets dropped probabilities to zero. Rows are queries.
template <int Keys, class Scores>
__device__ __forceinline__ void drop(Scores& probabilities, const std::uint32_t* kept) {
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Scores::kColumns; ++c) {
      if (!is_kept<Keys>(kept, Scores::row(r), Scores::column(c))) probabilities.at(r, c) = 0;
    }
  }
}

/// Bends the scores of a tile, which are products of queries and keys. Before masks hide some.
template <class Scores>
__device__ __forceinline__ void cap_scores(Scores& scores, const AttentionShape& shape) {
  const auto cap = shape.product_cap.template as<typename Scores::Real>();
  if (cap == 0) return;
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Scores::kColumns; ++c) scores.at(r, c) = soft_cap(scores.at(r, c), cap);
  }
}

__device__ __forceinline__ float natural_log(float value) { return logf(value); }
__device__ __forceinline__ double natural_log(double value) { return log(value); }

/// State of the rows of which a thread has scores.
template <class Scores>
class OnlineSoftmax {
 public:
  using Real = typename Scores::Real;

  __device__ __forceinline__ explicit OnlineSoftmax(const AttentionShape& shape)
      : scale_(shape.scale.template as<Real>()), binary_scale_(shape.binary_scale.template as<Real>()) {
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
      largest_[r] = -static_cast<Real>(INFINITY);
      sum_[r] = 0;
    }
  }

  /// Replaces the scores of a tile by probabilities, up to a factor per row. Scales the rows of `output`, which hold
  /// the sums of earlier tiles, by the same factor.
  template <class Output>
  __device__ __forceinline__ void add(Scores& scores, Output& output) {
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
      Real largest = largest_[r];
#pragma unroll
      for (int c = 0; c < Scores::kColumns; ++c) largest = max(largest, scores.at(r, c));
      largest = warp_reduce<Scores::kLanesPerRow>(largest, Larger{});
      const Real origin = shift(largest);
      const Real correction = fast_exp2(largest_[r] * binary_scale_ - origin);
      output.scale_row(r, correction);
      largest_[r] = largest;
      Real sum = 0;
#pragma unroll
      for (int c = 0; c < Scores::kColumns; ++c) {
        scores.at(r, c) = fast_exp2(scores.at(r, c) * binary_scale_ - origin);
        sum += scores.at(r, c);
      }
      sum_[r] = sum_[r] * correction + sum;
    }
  }

  /// After the last tile: sums over the lanes of a row.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) sum_[r] = warp_reduce<Scores::kLanesPerRow>(sum_[r], Sum{});
  }

  /// The factor that makes the probabilities of a row sum to one. 0 for a row that sees no key.
  [[nodiscard]] __device__ __forceinline__ Real normalizer(int r) const { return sum_[r] == 0 ? Real{0} : 1 / sum_[r]; }
  /// The log-sum-exp of a row. -infinity for a row that sees no key.
  [[nodiscard]] __device__ __forceinline__ Real log_sum_exponential(int r) const {
    return sum_[r] == 0 ? -static_cast<Real>(INFINITY) : largest_[r] * scale_ + natural_log(sum_[r]);
  }

 private:
  struct Larger {
    __device__ __forceinline__ Real operator()(Real a, Real b) const { return max(a, b); }
  };

  /// The exponent that is subtracted: that of the largest score, or any if all scores are -infinity.
  [[nodiscard]] __device__ __forceinline__ Real shift(Real largest) const {
    return largest == -static_cast<Real>(INFINITY) ? Real{0} : largest * binary_scale_;
  }

  Real scale_;
  Real binary_scale_;
  Real largest_[Scores::kRows];
  Real sum_[Scores::kRows];
};

// The gradient of attention from scores to probabilities and back. With probabilities p = exp(score - log-sum-exp),
// dropout factors m and D = d_o · o (the sum of p m (d_o · v) over all keys, also those of other ranks):
// d_v = Σ p m d_o, d_score = p (m (d_o · v) - D), d_q = scale Σ d_score k, d_k = scale Σ d_score q.

/// What the gradient needs of a query.
template <class Real>
struct alignas(2 * sizeof(Real)) QueryStatistic {
  /// Log-sum-exp to base two. Infinite if the query sees no key, so that its probabilities are 0.
  Real log_sum;
  /// D.
  Real product;
};

/// Starts to copy the statistics of queries from `first` on to shared memory. Those past the end are zero; their rows
/// of operands are zero, too, and add nothing.
template <int Threads, int Queries, class Real>
__device__ __forceinline__ void load_statistics(QueryStatistic<Real>* to, const QueryStatistic<Real>* from, int first,
                                                int count) {
  for (int i = recomputed(static_cast<int>(threadIdx.x)); i < Queries; i += Threads) {
    const bool is_there = first + i < count;
    copy_async<sizeof(QueryStatistic<Real>)>(to + i, is_there ? from + first + i : from, is_there);
  }
}

/// Replaces the scores of a tile by p, and d_o · v by d_score. With dropout, replaces the scores by p m without m's
/// constant factor. Where scores are capped, d_score is times the slope of the cap.
template <Rows Meaning, int Keys, bool IsGeneral, class Scores>
__device__ __forceinline__ void differentiate(Scores& scores, Scores& value_products, const AttentionShape& shape,
                                              const QueryStatistic<typename Scores::Real>* statistics,
                                              [[maybe_unused]] const std::uint32_t* kept) {
  using Real = typename Scores::Real;
  const auto binary_scale = shape.binary_scale.template as<Real>();
  [[maybe_unused]] const auto cap = shape.product_cap.template as<Real>();
  [[maybe_unused]] const auto kept_factor = shape.dropout.kept_factor.template as<Real>();
  [[maybe_unused]] const bool has_dropout = shape.dropout.threshold != 0;
  constexpr bool kQueryRows = Meaning == Rows::are_queries;
#pragma unroll
  for (int i = 0; i < (kQueryRows ? Scores::kRows : Scores::kColumns); ++i) {
    const int query = recomputed(kQueryRows ? Scores::row(i) : Scores::column(i));
    const QueryStatistic<Real> of_query = statistics[query];
#pragma unroll
    for (int j = 0; j < (kQueryRows ? Scores::kColumns : Scores::kRows); ++j) {
      Real& score = kQueryRows ? scores.at(i, j) : scores.at(j, i);
      Real& value_product = kQueryRows ? value_products.at(i, j) : value_products.at(j, i);
      const Real probability = fast_exp2(score * binary_scale - of_query.log_sum);
      [[maybe_unused]] const Real capped = score;
      score = probability;
      if constexpr (IsGeneral) {
        const int key = kQueryRows ? Scores::column(j) : recomputed(Scores::row(j));
        const bool keeps = !has_dropout || is_kept<Keys>(kept, query, key);
        score = keeps ? probability : Real{0};
        value_product = keeps ? value_product * kept_factor : Real{0};
      }
      value_product = probability * (value_product - of_query.product);
      if constexpr (IsGeneral) {
        if (cap != 0) value_product *= soft_cap_slope(capped, cap);
      }
    }
  }
}

}  // namespace strata::cuda
