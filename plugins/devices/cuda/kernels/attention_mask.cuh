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

/// Where the queries or keys of a tile are, in shared memory. A query sees a key if its position is at least the key's,
/// by less than the reach, and if both are in the same document.
template <int Count>
struct TilePlaces {
  /// Global positions. Without a causal mask 0, so that every query sees every key. Past the last key the largest
  /// number, which no query sees.
  std::int32_t positions[Count];
  std::int32_t documents[Count];

  /// Fills the places of the queries or keys from `first` on. Documents may arrive with the thread's copies. All
  /// threads of the block take part.
  template <Rows Side, int Threads>
  __device__ __forceinline__ void load(const AttentionShape& shape, int sample, int first) {
    constexpr bool kQueries = Side == Rows::are_queries;
    const DimIndexMap& map = kQueries ? shape.query_positions : shape.key_positions;
    const std::int32_t* all = kQueries ? shape.query_documents : shape.key_documents;
    const int length = kQueries ? shape.queries : shape.keys;
    for (int i = recomputed(static_cast<int>(threadIdx.x)); i < Count; i += Threads) {
      const int index = first + i;
      const int position = shape.causal ? static_cast<int>(map.global_index(index)) : 0;
      positions[i] = kQueries || index < length ? position : INT32_MAX;
      if (all != nullptr) copy_async<4>(documents + i, all + std::int64_t{sample} * length + min(index, length - 1));
    }
  }
};

/// Sets the scores of keys that a query does not see to -infinity.
template <Rows Meaning, class Scores, int RowCount, int ColumnCount>
__device__ __forceinline__ void hide(Scores& scores, const AttentionShape& shape, const TilePlaces<RowCount>& rows,
                                     const TilePlaces<ColumnCount>& columns) {
  constexpr auto kHidden = -static_cast<typename Scores::Real>(INFINITY);
  const auto reach = static_cast<std::uint32_t>(shape.reach);
  std::int32_t row_positions[Scores::kRows];
#pragma unroll
  for (int r = 0; r < Scores::kRows; ++r) row_positions[r] = rows.positions[recomputed(Scores::row(r))];
#pragma unroll
  for (int c = 0; c < Scores::kColumns; ++c) {
    const std::int32_t column = columns.positions[recomputed(Scores::column(c))];
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
      const std::int32_t distance =
          Meaning == Rows::are_queries ? row_positions[r] - column : column - row_positions[r];
      // As an unsigned number, a negative distance is beyond any reach.
      if (static_cast<std::uint32_t>(distance) >= reach) scores.at(r, c) = kHidden;
    }
  }
  if (shape.query_documents == nullptr) return;
#pragma unroll
  for (int c = 0; c < Scores::kColumns; ++c) {
    const std::int32_t column = columns.documents[recomputed(Scores::column(c))];
#pragma unroll
    for (int r = 0; r < Scores::kRows; ++r) {
      if (rows.documents[recomputed(Scores::row(r))] != column) scores.at(r, c) = kHidden;
    }
  }
}

}  // namespace strata::cuda
