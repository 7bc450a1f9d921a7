#pragma once

#include "kernels/attention_mask.cuh"
#include "kernels/attention_shape.cuh"
#include "language/language.hpp"

namespace strata::cuda {

/// The element of a head's bias for a query and a key at global positions.
[[nodiscard]] __device__ __forceinline__ std::int64_t bias_element(const AttentionShape& shape, std::int64_t query,
                                                                   std::int64_t key) {
  return key - query + shape.query_positions.global_size - 1;
}

/// Number of elements of a head's bias.
[[nodiscard]] __host__ __device__ inline std::int64_t bias_elements(const AttentionShape& shape) {
  return shape.query_positions.global_size + shape.key_positions.global_size - 1;
}

/// Adds the bias T[heads][distance] to a tile of scores that are not yet scaled. Keys past the end get that of the last
/// one, and queries past the end none, because their scores must stay 0. Does nothing if there is no bias.
template <Rows Meaning, class T, class Scores>
__device__ __forceinline__ void add_bias(Scores& scores, const AttentionShape& shape, int head, int first_query,
                                         int first_key) {
  if (shape.bias == nullptr) return;
  using Real = typename Scores::Real;
  constexpr bool kQueryRows = Meaning == Rows::are_queries;
  const T* row_of_head = static_cast<const T*>(shape.bias) + head * bias_elements(shape);
  const auto unscaled = shape.inverse_scale.template as<Real>();
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Scores::kColumns; ++c) {
      const int query = first_query + recomputed(kQueryRows ? Scores::row(r) : Scores::column(c));
      const int key = first_key + recomputed(kQueryRows ? Scores::column(c) : Scores::row(r));
      if (query >= shape.queries) continue;
      const std::int64_t element = bias_element(shape, shape.query_positions.global_index(query),
                                                shape.key_positions.global_index(min(key, shape.keys - 1)));
      scores.at(r, c) += widen(row_of_head[element]) * unscaled;
    }
  }
}

}  // namespace strata::cuda
