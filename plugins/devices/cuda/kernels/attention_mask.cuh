#pragma once

#include "kernels/attention_shape.cuh"
#include "language/recomputed.hpp"

/// \file
/// The causal mask of tiles. Positions are global, because local neighbours may be any blocks of the sequence.

namespace strata::cuda {

/// The lowest and the highest global position of a set of local indices.
struct PositionSpan {
  std::int64_t lowest;
  std::int64_t highest;
};

/// The span of the local indices from `begin` on: `count` of them, or fewer at the end.
__device__ __forceinline__ PositionSpan position_span(const DimIndexMap& map, std::int64_t begin, int count) {
  const std::int64_t end = min(begin + count, map.local_size);
  PositionSpan span{INT64_MAX, INT64_MIN};
  for (int i = 0; i < map.count; ++i) {
    const IndexRun& run = map.runs[i];
    const std::int64_t first = max(begin, run.local_begin);
    const std::int64_t last = min(end, run.local_begin + run.length) - 1;
    if (first > last) continue;
    span.lowest = min(span.lowest, run.global_begin + (first - run.local_begin));
    span.highest = max(span.highest, run.global_begin + (last - run.local_begin));
  }
  return span;
}

/// The tiles of keys of which a tile of queries sees at least one key.
template <int Queries, int Keys>
class VisibleKeys {
 public:
  __device__ __forceinline__ VisibleKeys(const AttentionShape& shape, int first_query)
      : shape_(shape), queries_(position_span(shape.query_positions, first_query, Queries)) {}

  [[nodiscard]] __device__ __forceinline__ int count() const { return (shape_.keys + Keys - 1) / Keys; }
  /// The first visible tile from `tile` on, or count() if there is none.
  [[nodiscard]] __device__ __forceinline__ int next(int tile) const {
    if (!shape_.causal) return tile;
    while (tile < count() && queries_.highest < position_span(shape_.key_positions, tile * Keys, Keys).lowest) ++tile;
    return tile;
  }
  /// True if the tile is full and every query sees all of its keys.
  [[nodiscard]] __device__ __forceinline__ bool is_whole(int tile) const {
    if ((tile + 1) * Keys > shape_.keys) return false;
    return !shape_.causal || queries_.lowest >= position_span(shape_.key_positions, tile * Keys, Keys).highest;
  }

 private:
  const AttentionShape& shape_;
  PositionSpan queries_;
};

/// The tiles of queries that see at least one key of a tile of keys.
template <int Queries, int Keys>
class VisibleQueries {
 public:
  __device__ __forceinline__ VisibleQueries(const AttentionShape& shape, int first_key)
      : shape_(shape), keys_(position_span(shape.key_positions, first_key, Keys)) {}

  [[nodiscard]] __device__ __forceinline__ int count() const { return (shape_.queries + Queries - 1) / Queries; }
  [[nodiscard]] __device__ __forceinline__ bool is_visible(int tile) const {
    return !shape_.causal || position_span(shape_.query_positions, tile * Queries, Queries).highest >= keys_.lowest;
  }
  /// True if every query of the tile sees all keys.
  [[nodiscard]] __device__ __forceinline__ bool is_whole(int tile) const {
    return !shape_.causal || position_span(shape_.query_positions, tile * Queries, Queries).lowest >= keys_.highest;
  }

 private:
  const AttentionShape& shape_;
  PositionSpan keys_;
};

/// Loops over the tiles of queries that see a tile of keys, for all heads that share the keys.
template <int Queries, int Keys>
class QueryWalk {
 public:
  struct Step {
    int head;
    int tile;
    [[nodiscard]] __device__ __forceinline__ int first_query() const { return tile * Queries; }
  };

  __device__ __forceinline__ QueryWalk(const AttentionShape& shape, int first_key, int kv_head)
      : visible_(shape, first_key), first_head_(kv_head * shape.group()), end_head_(first_head_ + shape.group()) {}

  [[nodiscard]] __device__ __forceinline__ Step first() const { return visible_step({first_head_, 0}); }
  [[nodiscard]] __device__ __forceinline__ Step next(Step step) const {
    return visible_step({step.head, step.tile + 1});
  }
  [[nodiscard]] __device__ __forceinline__ bool is_end(Step step) const { return step.head == end_head_; }
  [[nodiscard]] __device__ __forceinline__ bool is_whole(Step step) const { return visible_.is_whole(step.tile); }

 private:
  /// The first visible step from `step` on.
  [[nodiscard]] __device__ __forceinline__ Step visible_step(Step step) const {
    while (step.head < end_head_) {
      for (; step.tile < visible_.count(); ++step.tile) {
        if (visible_.is_visible(step.tile)) return step;
      }
      step = {step.head + 1, 0};
    }
    return step;
  }

  VisibleQueries<Queries, Keys> visible_;
  int first_head_;
  int end_head_;
};

/// Whether the rows of a tile of scores are queries or keys.
enum class Rows { are_queries, are_keys };

/// Sets the scores of keys that a query does not see, and of columns past the last key, to -infinity.
template <Rows Meaning, class Scores>
__device__ __forceinline__ void hide(Scores& scores, const AttentionShape& shape, int first_query, int first_key) {
  using Real = typename Scores::Real;
  constexpr bool kQueryRows = Meaning == Rows::are_queries;
  const DimIndexMap& row_map = kQueryRows ? shape.query_positions : shape.key_positions;
  const DimIndexMap& column_map = kQueryRows ? shape.key_positions : shape.query_positions;
  const int first_row = kQueryRows ? first_query : first_key;
  const int first_column = kQueryRows ? first_key : first_query;
  int row_positions[Scores::kRows];
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r)
    row_positions[r] = static_cast<int>(row_map.global_index(first_row + recomputed(Scores::row(r))));
#pragma unroll
  for (int c = 0; c < Scores::kColumns; ++c) {
    const int column = first_column + recomputed(Scores::column(c));
    const auto column_position = static_cast<int>(column_map.global_index(column));
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
      const bool is_after = kQueryRows ? column_position > row_positions[r] : row_positions[r] > column_position;
      const bool is_hidden = (shape.causal && is_after) || (kQueryRows && column >= shape.keys);
      if (is_hidden) scores.at(r, c) = -static_cast<Real>(INFINITY);
    }
  }
}

}  // namespace strata::cuda
