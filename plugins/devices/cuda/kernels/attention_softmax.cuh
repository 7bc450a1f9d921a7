#pragma once

#include "kernels/attention_shape.cuh"
#include "language/exponential.hpp"
#include "language/language.hpp"

/// \file
/// The softmax of rows whose scores are computed tile by tile (Milakov and Gimelshein, "Online normalizer calculation
/// for softmax", 2018). Exponentials are powers of two.

namespace strata::cuda {

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

}  // namespace strata::cuda
