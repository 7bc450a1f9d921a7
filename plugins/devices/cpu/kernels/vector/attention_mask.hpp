#pragma once

#include "kernels/vector/attention_bias.hpp"
#include "kernels/vector/attention_tile.hpp"

// The masks of attention by tiles.

namespace strata::cpu::STRATA_CPU_TARGET {

namespace {

/// Tells which scores of a tile a mask hides: none, some or all.
enum class TileMask { none, some, all };

/// The causal mask with its window, by global positions, and the mask of documents. The bias of the scores is beside
/// them.
class AttentionMask {
 public:
  AttentionMask(Workspace& workspace, const AttentionShape& shape)
      : queries(workspace, 1, shape.sequence, kQueries),
        keys(workspace, 1, shape.kv_sequence, kKeys),
        bias(workspace, shape),
        shape_(shape),
        query_documents_(workspace, shape.has_documents ? shape.batch : 0, shape.sequence, kQueries),
        key_documents_(workspace, shape.has_documents ? shape.batch : 0, shape.kv_sequence, kKeys) {}

  void fill() const {
    queries.fill(shape_.query_positions);
    keys.fill(shape_.key_positions);
    bias.fill();
    if (!shape_.has_documents) return;
    query_documents_.fill(shape_.batch, shape_.query_documents);
    key_documents_.fill(shape_.batch, shape_.key_documents);
  }

  /// The mask of positions. `query` and `key` are the first ones of the tile, here and below.
  TileMask of_positions(std::int64_t query, std::int64_t key) const {
    if (!shape_.causal) return TileMask::none;
    const std::int64_t nearest = std::int64_t{queries.least(query)} - keys.largest(key);
    const std::int64_t farthest = std::int64_t{queries.largest(query)} - keys.least(key);
    if (nearest >= 0 && (shape_.window == 0 || farthest < shape_.window)) return TileMask::none;
    return farthest < 0 || (shape_.window > 0 && nearest >= shape_.window) ? TileMask::all : TileMask::some;
  }

  TileMask of_documents(std::int64_t batch, std::int64_t query, std::int64_t key) const {
    if (!shape_.has_documents) return TileMask::none;
    const std::int32_t query_least = query_documents_.least(query, batch);
    const std::int32_t query_largest = query_documents_.largest(query, batch);
    const std::int32_t key_least = key_documents_.least(key, batch);
    const std::int32_t key_largest = key_documents_.largest(key, batch);
    if (query_largest < key_least || key_largest < query_least) return TileMask::all;
    return query_least == query_largest && key_least == key_largest ? TileMask::none : TileMask::some;
  }

  /// Sets the scores that the mask of positions hides to -infinity.
  void hide_by_position(std::int64_t query, std::int64_t key, std::int64_t key_count, float* scores) const {
    if (shape_.window == 0) {
      hide(queries.from(query), keys.from(key), key_count, scores, [](Int q, Int k) { return q >= k; });
      return;
    }
    const Int window = broadcast(static_cast<std::int32_t>(smaller(shape_.window, INT32_MAX)));
    hide(queries.from(query), keys.from(key), key_count, scores,
         [window](Int q, Int k) { return (q >= k) & (q - k < window); });
  }

  void hide_by_document(std::int64_t batch, std::int64_t query, std::int64_t key, std::int64_t key_count,
                        float* scores) const {
    hide(query_documents_.from(query, batch), key_documents_.from(key, batch), key_count, scores,
         [](Int q, Int k) { return q == k; });
  }

  /// Global positions.
  TokenNumbers queries;
  TokenNumbers keys;
  ScoreBias bias;

 private:
  template <class Visible>
  static void hide(const std::int32_t* query_numbers, const std::int32_t* key_numbers, std::int64_t key_count,
                   float* scores, const Visible& visible) {
    for (int v = 0; v < kQueryVectors; ++v) {
      const Int number = load<Int>(query_numbers + v * kLanes);
      for (std::int64_t j = 0; j < key_count; ++j) {
        float* score = scores + j * kQueries + v * kLanes;
        store(score, select(visible(number, broadcast(key_numbers[j])), load(score), broadcast(-kInfinity)));
      }
    }
  }

  const AttentionShape& shape_;
  TokenNumbers query_documents_;
  TokenNumbers key_documents_;
};

}  // namespace

}  // namespace strata::cpu::STRATA_CPU_TARGET
