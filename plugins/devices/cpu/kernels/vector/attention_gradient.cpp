#include "kernels/vector/attention_gradient.hpp"

#include "kernels/vector/attention_tile.hpp"
#include "kernels/vector/math.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/transpose.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// What one thread needs for one head of keys. Rows of head_dim are padded to whole vectors with zeros.
struct GradientScratch {
  GradientScratch(Workspace& workspace, const AttentionShape& shape)
      : dim(round_up(shape.head_dim, kLanes)),
        dk(workspace.take<float>(shape.kv_sequence * dim)),
        dv(workspace.take<float>(shape.kv_sequence * dim)),
        query(workspace.take<float>(kQueries * dim)),
        d_output(workspace.take<float>(kQueries * dim)),
        query_columns(workspace.take<float>(shape.head_dim * kQueries)),
        d_output_columns(workspace.take<float>(shape.head_dim * kQueries)),
        d_query_columns(workspace.take<float>(shape.head_dim * kQueries)),
        probabilities(workspace.take<float>(kTileSize)),
        d_scores(workspace.take<float>(kTileSize)),
        factors(shape.dropout.probability > 0.0 ? workspace.take<float>(kTileSize) : nullptr),
        lse(workspace.take<float>(kQueries)),
        delta(workspace.take<float>(kQueries)) {}

  std::int64_t dim;
  float* dk;                // [kv_sequence][dim], without the scale
  float* dv;                // [kv_sequence][dim]
  float* query;             // [query][dim]
  float* d_output;          // [query][dim]
  float* query_columns;     // [head_dim][query], scaled
  float* d_output_columns;  // [head_dim][query]
  float* d_query_columns;   // [head_dim][query], without the scale
  float* probabilities;     // [key][query]
  float* d_scores;          // [key][query]
  float* factors;           // [key][query]
  float* lse;               // [query]
  float* delta;             // [query]: sum over head_dim of o * d_o
};

void pack_rows(std::int64_t count, std::int64_t head_dim, const float* from, std::int64_t stride, std::int64_t dim,
               float* to) {
  for (std::int64_t i = 0; i < kQueries; ++i) {
    float* row = to + i * dim;
    if (i < count) __builtin_memcpy(row, from + i * stride, static_cast<std::size_t>(head_dim) * sizeof(float));
    const std::int64_t used = i < count ? head_dim : 0;
    __builtin_memset(row + used, 0, static_cast<std::size_t>(dim - used) * sizeof(float));
  }
}

void unpack_rows(std::int64_t count, std::int64_t head_dim, const float* from, std::int64_t dim, float factor,
                 float* to, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    map_range(0, head_dim, from + i * dim, to + i * stride, [factor](Float a) { return a * factor; });
  }
}

float dot(std::int64_t size, const float* x, const float* y) {
  Float total{};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) total += load(x + i) * load(y + i);
  if (i < size) total += load_first(x + i, size - i) * load_first(y + i, size - i);
  return horizontal_sum(total);
}

struct Operands {
  const float* q;
  const float* k;
  const float* v;
  const float* o;
  const float* lse;
  const float* d_o;
  float* dq;
  float* dk;
  float* dv;
};

class Gradient {
 public:
  Gradient(const AttentionShape& shape, const Operands& operands, Workspace& workspace)
      : shape_(shape),
        operands_(operands),
        queries_(workspace, shape.sequence, kQueries),
        keys_(workspace, shape.kv_sequence, kKeys) {}

  void run(Workspace& workspace, int threads) {
    queries_.fill(shape_.query_positions);
    keys_.fill(shape_.key_positions);
    Workspace first = workspace;
    static_cast<void>(GradientScratch(first, shape_));
    const std::int64_t scratch_bytes = first.used() - workspace.used();
    char* scratch_begin = workspace.take<char>(scratch_bytes * threads);
    parallel_tasks(threads, shape_.batch * shape_.kv_heads, [&](std::int64_t task, int thread) {
      Workspace own(scratch_begin + thread * scratch_bytes);
      kv_head(task / shape_.kv_heads, task % shape_.kv_heads, GradientScratch(own, shape_));
    });
  }

 private:
  /// dk and dv of one head of keys, and dq of the query heads that read it.
  void kv_head(std::int64_t batch, std::int64_t kv_head, const GradientScratch& scratch) const {
    const std::size_t bytes = static_cast<std::size_t>(shape_.kv_sequence * scratch.dim) * sizeof(float);
    __builtin_memset(scratch.dk, 0, bytes);
    __builtin_memset(scratch.dv, 0, bytes);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t query = 0; query < shape_.sequence; query += kQueries) {
        query_block(batch, kv_head, head, query, scratch);
      }
    }
    unpack_rows(shape_.kv_sequence, shape_.head_dim, scratch.dk, scratch.dim, shape_.scale,
                head_begin(operands_.dk, shape_.key_strides, batch, kv_head), shape_.key_strides.sequence);
    unpack_rows(shape_.kv_sequence, shape_.head_dim, scratch.dv, scratch.dim, 1.0F,
                head_begin(operands_.dv, shape_.value_strides, batch, kv_head), shape_.value_strides.sequence);
  }

  void load_block(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t count,
                  const GradientScratch& scratch) const {
    const std::int64_t q_stride = shape_.query_strides.sequence;
    const std::int64_t o_stride = shape_.output_strides.sequence;
    const float* q = head_begin(operands_.q, shape_.query_strides, batch, head) + query * q_stride;
    const float* o = head_begin(operands_.o, shape_.output_strides, batch, head) + query * o_stride;
    const float* d_o = head_begin(operands_.d_o, shape_.output_strides, batch, head) + query * o_stride;
    const float* lse = operands_.lse + (batch * shape_.heads + head) * shape_.sequence + query;
    pack_rows(count, shape_.head_dim, q, q_stride, scratch.dim, scratch.query);
    pack_rows(count, shape_.head_dim, d_o, o_stride, scratch.dim, scratch.d_output);
    transpose(kQueries, shape_.head_dim, scratch.query, scratch.dim, scratch.query_columns, kQueries, shape_.scale);
    transpose(kQueries, shape_.head_dim, scratch.d_output, scratch.dim, scratch.d_output_columns, kQueries, 1.0F);
    for (std::int64_t i = 0; i < kQueries; ++i) {
      // A query that sees no key, or is only padding, gets probabilities of 0.
      scratch.lse[i] = i < count && lse[i] != -kInfinity ? lse[i] : kInfinity;
      scratch.delta[i] = i < count ? dot(shape_.head_dim, o + i * o_stride, d_o + i * o_stride) : 0.0F;
    }
  }

  void query_block(std::int64_t batch, std::int64_t kv_head, std::int64_t head, std::int64_t query,
                   const GradientScratch& scratch) const {
    const std::int64_t count = smaller(kQueries, shape_.sequence - query);
    load_block(batch, head, query, count, scratch);
    __builtin_memset(scratch.d_query_columns, 0, static_cast<std::size_t>(shape_.head_dim * kQueries) * sizeof(float));
    const TileDropout dropout(shape_, batch, head, queries_, query, keys_);
    const float* k = head_begin(operands_.k, shape_.key_strides, batch, kv_head);
    const float* v = head_begin(operands_.v, shape_.value_strides, batch, kv_head);
    for (std::int64_t key = 0; key < shape_.kv_sequence; key += kKeys) {
      const TileMask mask = tile_mask(shape_, queries_, query, keys_, key);
      if (mask == TileMask::all) continue;
      const std::int64_t key_count = smaller(kKeys, shape_.kv_sequence - key);
      if (scratch.factors != nullptr) dropout.fill(key, key_count, scratch.factors);
      score_gradient(query, key, key_count, mask, k, v, scratch);
      const std::int64_t vectors = scratch.dim / kLanes;
      tile_product(key_count, vectors, kQueries, {scratch.probabilities, kQueries, 1}, {scratch.d_output, scratch.dim},
                   {scratch.dv + key * scratch.dim, scratch.dim}, true);
      tile_product(key_count, vectors, kQueries, {scratch.d_scores, kQueries, 1}, {scratch.query, scratch.dim},
                   {scratch.dk + key * scratch.dim, scratch.dim}, true);
      const std::int64_t key_stride = shape_.key_strides.sequence;
      tile_product(shape_.head_dim, kQueryVectors, key_count, {k + key * key_stride, 1, key_stride},
                   {scratch.d_scores, kQueries}, {scratch.d_query_columns, kQueries}, true);
    }
    const std::int64_t stride = shape_.query_strides.sequence;
    transpose(shape_.head_dim, count, scratch.d_query_columns, kQueries,
              head_begin(operands_.dq, shape_.query_strides, batch, head) + query * stride, stride, shape_.scale);
  }

  /// Leaves the (dropped) probabilities and the gradient of the scores, before the scale.
  void score_gradient(std::int64_t query, std::int64_t key, std::int64_t key_count, TileMask mask, const float* k,
                      const float* v, const GradientScratch& scratch) const {
    const std::int64_t key_stride = shape_.key_strides.sequence;
    const std::int64_t value_stride = shape_.value_strides.sequence;
    tile_product(key_count, kQueryVectors, shape_.head_dim, {k + key * key_stride, key_stride, 1},
                 {scratch.query_columns, kQueries}, {scratch.probabilities, kQueries}, false);
    tile_product(key_count, kQueryVectors, shape_.head_dim, {v + key * value_stride, value_stride, 1},
                 {scratch.d_output_columns, kQueries}, {scratch.d_scores, kQueries}, false);
    if (mask == TileMask::some) mask_scores(queries_, query, keys_, key, key_count, -kInfinity, scratch.probabilities);
    for (int vector = 0; vector < kQueryVectors; ++vector) {
      const Float lse = load(scratch.lse + vector * kLanes);
      const Float delta = load(scratch.delta + vector * kLanes);
      for (std::int64_t at = vector * kLanes; at < key_count * kQueries; at += kQueries) {
        const Float probability = exponential(load(scratch.probabilities + at) - lse);
        const Float factor = scratch.factors == nullptr ? broadcast(1.0F) : load(scratch.factors + at);
        store(scratch.probabilities + at, probability * factor);
        store(scratch.d_scores + at, probability * (load(scratch.d_scores + at) * factor - delta));
      }
    }
  }

  const AttentionShape& shape_;
  Operands operands_;
  Positions queries_;
  Positions keys_;
};

}  // namespace

std::int64_t attention_gradient_workspace_bytes(const AttentionShape& shape, int threads) {
  Workspace shared(nullptr);
  const Gradient gradient(shape, {}, shared);
  Workspace own(nullptr);
  static_cast<void>(GradientScratch(own, shape));
  return shared.used() + own.used() * threads;
}

void attention_gradient(const AttentionShape& shape, const float* q, const float* k, const float* v, const float* o,
                        const float* lse, const float* d_o, float* dq, float* dk, float* dv, void* workspace,
                        int threads) {
  Workspace pieces(workspace);
  Gradient(shape, {q, k, v, o, lse, d_o, dq, dk, dv}, pieces).run(pieces, threads);
}

}  // namespace strata::cpu::STRATA_CPU_TARGET
