#pragma once

#include "kernels/attention_shape.cuh"
#include "language/language.hpp"

/// \file
/// The masks of tiles: causal with its window, and documents. Positions are global, because local neighbours may be any
/// blocks of the sequence. Tiles are skipped by positions only. Documents are compared score by score.

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
#pragma unroll 1
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

/// True if positions let some query of a tile see some key of another.
__device__ __forceinline__ bool sees_some(const AttentionShape& shape, const PositionSpan& queries,
                                          const PositionSpan& keys) {
  return !shape.causal || (queries.highest >= keys.lowest && queries.lowest - keys.highest < shape.reach);
}

/// True if every query of a tile sees every key of another.
__device__ __forceinline__ bool sees_all(const AttentionShape& shape, const PositionSpan& queries,
                                         const PositionSpan& keys) {
  if (shape.query_documents != nullptr) return false;
  return !shape.causal || (queries.lowest >= keys.highest && queries.highest - keys.lowest < shape.reach);
}

/// Whether the rows of a tile of scores are queries or keys.
enum class Rows { are_queries, are_keys };

/// The tiles of the other side that a block needs: those of keys of which its tile of queries sees at least one, or
/// those of queries that see at least one of its keys. A warp tests 32 tiles at once, one per lane.
template <Rows Own, int Queries, int Keys>
class VisibleTiles {
 public:
  struct Tile {
    int index;
    /// True if every query sees every key, and no key is past the end.
    bool is_whole;
  };

  /// `first`: the first query or key of the block's tile.
  __device__ __forceinline__ VisibleTiles(const AttentionShape& shape, int first)
      : shape_(shape),
        own_(kOwnsQueries ? position_span(shape.query_positions, first, Queries)
                          : position_span(shape.key_positions, first, Keys)) {}

  [[nodiscard]] __device__ __forceinline__ int count() const {
    return kOwnsQueries ? (shape_.keys + Keys - 1) / Keys : (shape_.queries + Queries - 1) / Queries;
  }
  [[nodiscard]] __device__ __forceinline__ bool is_end(const Tile& tile) const { return tile.index == count(); }
  /// The first visible tile from `index` on, or the end. All lanes take part.
  [[nodiscard]] __device__ __forceinline__ Tile next(int index) {
    while (index < count()) {
      if (index / kWarpSize != tested_) test(index / kWarpSize);
      const unsigned rest = visible_ >> (index % kWarpSize);
      if (rest != 0) {
        index += __ffs(static_cast<int>(rest)) - 1;
        return {index, (whole_ >> (index % kWarpSize) & 1U) != 0};
      }
      index = (tested_ + 1) * kWarpSize;
    }
    return {count(), false};
  }

 private:
  static constexpr bool kOwnsQueries = Own == Rows::are_queries;

  __device__ __forceinline__ void test(int group) {
    tested_ = group;
    const int index = group * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize;
    const bool is_there = index < count();
    const PositionSpan other = kOwnsQueries
                                   ? position_span(shape_.key_positions, std::int64_t{index} * Keys, Keys)
                                   : position_span(shape_.query_positions, std::int64_t{index} * Queries, Queries);
    const PositionSpan& queries = kOwnsQueries ? own_ : other;
    const PositionSpan& keys = kOwnsQueries ? other : own_;
    const bool has_keys = !kOwnsQueries || (index + 1) * Keys <= shape_.keys;
    visible_ = __ballot_sync(kFullMask, is_there && sees_some(shape_, queries, keys));
    whole_ = __ballot_sync(kFullMask, is_there && has_keys && sees_all(shape_, queries, keys));
  }

  const AttentionShape& shape_;
  PositionSpan own_;
  /// The tested tiles are 32 from tested_ * 32 on.
  int tested_ = -1;
  unsigned visible_ = 0;
  unsigned whole_ = 0;
};

/// Loops over the tiles of queries that see a tile of keys, for all heads that share the keys.
template <int Queries, int Keys>
class QueryWalk {
 public:
  struct Step {
    int head;
    int tile;
    bool is_whole;
    [[nodiscard]] __device__ __forceinline__ int first_query() const { return tile * Queries; }
  };

  __device__ __forceinline__ QueryWalk(const AttentionShape& shape, int first_key, int kv_head)
      : visible_(shape, first_key), first_head_(kv_head * shape.group()), end_head_(first_head_ + shape.group()) {}

  [[nodiscard]] __device__ __forceinline__ Step first() { return visible_step(first_head_, 0); }
  [[nodiscard]] __device__ __forceinline__ Step next(Step step) { return visible_step(step.head, step.tile + 1); }
  [[nodiscard]] __device__ __forceinline__ bool is_end(Step step) const { return step.head == end_head_; }

 private:
  /// The first visible step from this one on.
  [[nodiscard]] __device__ __forceinline__ Step visible_step(int head, int index) {
    for (; head < end_head_; ++head, index = 0) {
      const auto tile = visible_.next(index);
      if (!visible_.is_end(tile)) return {head, tile.index, tile.is_whole};
    }
    return {end_head_, 0, false};
  }

  VisibleTiles<Rows::are_keys, Queries, Keys> visible_;
  int first_head_;
  int end_head_;
};

/// Sets the scores of keys that positions hide from a query, and of columns past the last key, to -infinity.
template <Rows Meaning, class Scores>
__device__ __forceinline__ void hide_by_position(Scores& scores, const AttentionShape& shape, int first_query,
                                                 int first_key) {
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
      const int distance = kQueryRows ? row_positions[r] - column_position : column_position - row_positions[r];
      // As an unsigned number, a negative distance is beyond any reach.
      const bool is_out_of_reach = static_cast<std::uint32_t>(distance) >= static_cast<std::uint32_t>(shape.reach);
      const bool is_hidden = (shape.causal && is_out_of_reach) || (kQueryRows && column >= shape.keys);
      if (is_hidden) scores.at(r, c) = -static_cast<Real>(INFINITY);
    }
  }
}

/// Sets the scores of keys of other documents than a query's to -infinity.
template <Rows Meaning, class Scores>
__device__ __forceinline__ void hide_by_document(Scores& scores, const AttentionShape& shape, int sample,
                                                 int first_query, int first_key) {
  using Real = typename Scores::Real;
  constexpr bool kQueryRows = Meaning == Rows::are_queries;
  // Rows and columns past the end have the last number. Nothing reads their scores.
  const auto document = [&](bool is_query, int index) {
    const int length = is_query ? shape.queries : shape.keys;
    const std::int32_t* documents = is_query ? shape.query_documents : shape.key_documents;
    return documents[std::int64_t{sample} * length + min(index, length - 1)];
  };
  const int first_row = kQueryRows ? first_query : first_key;
  const int first_column = kQueryRows ? first_key : first_query;
  std::int32_t row_documents[Scores::kRows];
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r)
    row_documents[r] = document(kQueryRows, first_row + recomputed(Scores::row(r)));
#pragma unroll
  for (int c = 0; c < Scores::kColumns; ++c) {
    const std::int32_t column_document = document(!kQueryRows, first_column + recomputed(Scores::column(c)));
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
      if (row_documents[r] != column_document) scores.at(r, c) = -static_cast<Real>(INFINITY);
    }
  }
}

/// Sets the scores of keys that a query does not see, and of columns past the last key, to -infinity.
template <Rows Meaning, class Scores>
__device__ __forceinline__ void hide(Scores& scores, const AttentionShape& shape, int sample, int first_query,
                                     int first_key) {
  hide_by_position<Meaning>(scores, shape, first_query, first_key);
  if (shape.query_documents != nullptr) hide_by_document<Meaning>(scores, shape, sample, first_query, first_key);
}

}  // namespace strata::cuda
