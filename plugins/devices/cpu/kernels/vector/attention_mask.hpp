#pragma once

#include "kernels/vector/attention_tile.hpp"
#include "kernels/vector/element.hpp"

// The masks of attention by tiles; the bias of scores by the distance of a key from its query, and its gradient.

namespace strata::cpu::STRATA_CPU_TARGET {

namespace {

/// A row of elements per head. They lie in descending order of distance, so neighbouring queries read neighbours: the
/// element of a query and a key at global positions q and k is number q - k + keys - 1. The gradient is a sum over the
/// samples, which have rows of their own, so that its order does not depend on threads.
class ScoreBias {
 public:
  ScoreBias(Workspace& workspace, const AttentionShape& shape)
      : shape_(shape),
        length_(shape.has_bias ? shape.global_sequence + shape.global_kv_sequence - 1 : 0),
        rows_(workspace.take<float>(shape.heads * length_)),
        gradients_(workspace.take<float>(shape.has_bias_gradient ? shape.batch * shape.heads * length_ : 0)) {}

  /// Reads the bias from T[heads][distance], or nothing if there is none.
  void fill() const {
    if (length_ == 0) return;
    with_elements(shape_.element, shape_.bias, [this](const auto* from) {
      for (std::int64_t head = 0; head < shape_.heads; ++head) {
        for (std::int64_t i = 0; i < length_; ++i) {
          rows_[head * length_ + i] = load_one(from + head * length_ + length_ - 1 - i);
        }
      }
    });
    const std::int64_t size = shape_.has_bias_gradient ? shape_.batch * shape_.heads * length_ : 0;
    __builtin_memset(gradients_, 0, static_cast<std::size_t>(size) * sizeof(float));
  }

  bool is_there() const { return length_ != 0; }
  bool has_gradient() const { return shape_.has_bias_gradient; }

  /// Adds the bias to scores[key][query]. `queries` and `keys`: global positions of those of the tile.
  void add(std::int64_t head, const std::int32_t* queries, const std::int32_t* keys, std::int64_t key_count,
           float* scores) const {
    const float* row = rows_ + head * length_ + shape_.global_kv_sequence - 1;
    each_vector(queries, keys, key_count, [&](std::int64_t at, const std::int32_t* query, std::int32_t key, bool run) {
      store(scores + at, load(scores + at) + (run ? load(row + (query[0] - key)) : gather(row, query, key)));
    });
  }

  /// Adds gradients d_scores[key][query] to those of the bias.
  void add_gradient(std::int64_t batch, std::int64_t head, const std::int32_t* queries, const std::int32_t* keys,
                    std::int64_t key_count, const float* d_scores) const {
    float* row = gradients_ + (batch * shape_.heads + head) * length_ + shape_.global_kv_sequence - 1;
    each_vector(queries, keys, key_count, [&](std::int64_t at, const std::int32_t* query, std::int32_t key, bool run) {
      if (run) {
        float* to = row + (query[0] - key);
        store(to, load(to) + load(d_scores + at));
        return;
      }
      for (int lane = 0; lane < kLanes; ++lane) row[query[lane] - key] += d_scores[at + lane];
    });
  }

  /// Writes the sum of the gradients over the samples, in f32 or the type of the operands.
  void write_gradient() const {
    if (!has_gradient()) return;
    with_elements(shape_.f32_results ? Element::f32 : shape_.element, shape_.d_bias, [this](auto* to) {
      for (std::int64_t i = 0; i < shape_.heads * length_; ++i) {
        float sum = 0.0F;
        for (std::int64_t batch = 0; batch < shape_.batch; ++batch) {
          sum += gradients_[batch * shape_.heads * length_ + i];
        }
        const std::int64_t head = i / length_;
        store_one(to + head * length_ + (length_ - 1 - i % length_), sum);
      }
    });
  }

 private:
  /// Calls body(index in the tile, positions of a vector of queries, position of a key, true if the queries are
  /// neighbours) for all vectors of a tile.
  template <class Body>
  static void each_vector(const std::int32_t* queries, const std::int32_t* keys, std::int64_t key_count,
                          const Body& body) {
    for (int v = 0; v < kQueryVectors; ++v) {
      const std::int32_t* query = queries + v * kLanes;
      bool run = true;
      for (int lane = 1; lane < kLanes; ++lane) run = run && query[lane] == query[0] + lane;
      for (std::int64_t j = 0; j < key_count; ++j) body(j * kQueries + v * kLanes, query, keys[j], run);
    }
  }

  static Float gather(const float* row, const std::int32_t* query, std::int32_t key) {
    Float values{};
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = row[query[lane] - key];
    return values;
  }

  const AttentionShape& shape_;
  std::int64_t length_;
  float* rows_;
  float* gradients_;
};

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
