#include "kernels/vector/attention_gradient.hpp"

#include "kernels/vector/attention_tile.hpp"
#include "kernels/vector/math.hpp"
#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// What one thread needs for one head of keys. Rows of head_dim are padded to whole vectors with zeros.
template <class T>
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
        key_rows(take_rows<T>(workspace, kKeys, shape.head_dim)),
        value_rows(take_rows<T>(workspace, kKeys, shape.head_dim)),
        d_query_rows(take_rows<T>(workspace, kQueries, shape.head_dim)),
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
  float* key_rows;          // [key][head_dim]
  float* value_rows;        // [key][head_dim]
  float* d_query_rows;      // [query][head_dim]
  float* factors;           // [key][query]
  float* lse;               // [query]
  float* delta;             // [query]: sum over head_dim of o * d_o
};

template <class T>
void pack_rows(std::int64_t count, std::int64_t head_dim, const T* from, std::int64_t stride, std::int64_t dim,
               float* to) {
  for (std::int64_t i = 0; i < kQueries; ++i) {
    float* row = to + i * dim;
    if (i < count) map_range(0, head_dim, from + i * stride, row, [](Float a) { return a; });
    const std::int64_t used = i < count ? head_dim : 0;
    __builtin_memset(row + used, 0, static_cast<std::size_t>(dim - used) * sizeof(float));
  }
}

template <class T>
struct Operands {
  const T* q;
  const T* k;
  const T* v;
  const T* o;
  const float* lse;
  const T* d_o;
  void* dq;
  void* dk;
  void* dv;
};

template <class T>
class Gradient {
 public:
  using Scratch = GradientScratch<T>;

  Gradient(const AttentionShape& shape, const Operands<T>& operands, Workspace& workspace)
      : shape_(shape),
        operands_(operands),
        queries_(workspace, shape.sequence, kQueries),
        keys_(workspace, shape.kv_sequence, kKeys) {}

  void run(Workspace& workspace, int threads) {
    queries_.fill(shape_.query_positions);
    keys_.fill(shape_.key_positions);
    Workspace first = workspace;
    static_cast<void>(Scratch(first, shape_));
    const std::int64_t scratch_bytes = first.used() - workspace.used();
    char* scratch_begin = workspace.take<char>(scratch_bytes * threads);
    parallel_tasks(threads, shape_.batch * shape_.kv_heads, [&](std::int64_t task, int thread) {
      Workspace own(scratch_begin + thread * scratch_bytes);
      kv_head(task / shape_.kv_heads, task % shape_.kv_heads, Scratch(own, shape_));
    });
  }

 private:
  /// dk and dv of one head of keys, and dq of the query heads that read it.
  void kv_head(std::int64_t batch, std::int64_t kv_head, const Scratch& scratch) const {
    const std::size_t bytes = static_cast<std::size_t>(shape_.kv_sequence * scratch.dim) * sizeof(float);
    __builtin_memset(scratch.dk, 0, bytes);
    __builtin_memset(scratch.dv, 0, bytes);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t query = 0; query < shape_.sequence; query += kQueries) {
        query_block(batch, kv_head, head, query, scratch);
      }
    }
    with_result<T>(shape_, operands_.dk, [&](auto* dk) {
      unpack_rows(shape_.kv_sequence, shape_.head_dim, scratch.dk, scratch.dim, shape_.scale,
                  head_begin(dk, shape_.key_strides, batch, kv_head), shape_.key_strides.sequence);
    });
    with_result<T>(shape_, operands_.dv, [&](auto* dv) {
      unpack_rows(shape_.kv_sequence, shape_.head_dim, scratch.dv, scratch.dim, 1.0F,
                  head_begin(dv, shape_.value_strides, batch, kv_head), shape_.value_strides.sequence);
    });
  }

  void load_block(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t count,
                  const Scratch& scratch) const {
    const std::int64_t q_stride = shape_.query_strides.sequence;
    const std::int64_t o_stride = shape_.output_strides.sequence;
    const T* q = head_begin(operands_.q, shape_.query_strides, batch, head) + query * q_stride;
    const T* o = head_begin(operands_.o, shape_.output_strides, batch, head) + query * o_stride;
    const T* d_o = head_begin(operands_.d_o, shape_.output_strides, batch, head) + query * o_stride;
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
                   const Scratch& scratch) const {
    const std::int64_t count = smaller(kQueries, shape_.sequence - query);
    load_block(batch, head, query, count, scratch);
    __builtin_memset(scratch.d_query_columns, 0, static_cast<std::size_t>(shape_.head_dim * kQueries) * sizeof(float));
    const TileDropout dropout(shape_, batch, head, queries_, query, keys_);
    const T* k = head_begin(operands_.k, shape_.key_strides, batch, kv_head);
    const T* v = head_begin(operands_.v, shape_.value_strides, batch, kv_head);
    const std::int64_t key_stride = shape_.key_strides.sequence;
    const std::int64_t value_stride = shape_.value_strides.sequence;
    for (std::int64_t key = 0; key < shape_.kv_sequence; key += kKeys) {
      const TileMask mask = tile_mask(shape_, queries_, query, keys_, key);
      if (mask == TileMask::all) continue;
      const std::int64_t key_count = smaller(kKeys, shape_.kv_sequence - key);
      if (scratch.factors != nullptr) dropout.fill(key, key_count, scratch.factors);
      const auto keys = rows_in_f32(key_count, shape_.head_dim, k + key * key_stride, key_stride, scratch.key_rows);
      const auto values =
          rows_in_f32(key_count, shape_.head_dim, v + key * value_stride, value_stride, scratch.value_rows);
      score_gradient(query, key, key_count, mask, keys, values, scratch);
      const std::int64_t vectors = scratch.dim / kLanes;
      tile_product(key_count, vectors, kQueries, {scratch.probabilities, kQueries, 1}, {scratch.d_output, scratch.dim},
                   {scratch.dv + key * scratch.dim, scratch.dim}, true);
      tile_product(key_count, vectors, kQueries, {scratch.d_scores, kQueries, 1}, {scratch.query, scratch.dim},
                   {scratch.dk + key * scratch.dim, scratch.dim}, true);
      tile_product(shape_.head_dim, kQueryVectors, key_count, {keys.data, 1, keys.stride}, {scratch.d_scores, kQueries},
                   {scratch.d_query_columns, kQueries}, true);
    }
    const std::int64_t stride = shape_.query_strides.sequence;
    with_result<T>(shape_, operands_.dq, [&](auto* dq) {
      write_rows(count, shape_.head_dim, scratch.d_query_columns, shape_.scale,
                 head_begin(dq, shape_.query_strides, batch, head) + query * stride, stride, scratch.d_query_rows);
    });
  }

  /// Leaves the (dropped) probabilities and the gradient of the scores, before the scale.
  void score_gradient(std::int64_t query, std::int64_t key, std::int64_t key_count, TileMask mask,
                      const TileRows<const float*>& keys, const TileRows<const float*>& values,
                      const Scratch& scratch) const {
    tile_product(key_count, kQueryVectors, shape_.head_dim, {keys.data, keys.stride, 1},
                 {scratch.query_columns, kQueries}, {scratch.probabilities, kQueries}, false);
    tile_product(key_count, kQueryVectors, shape_.head_dim, {values.data, values.stride, 1},
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
  Operands<T> operands_;
  Positions queries_;
  Positions keys_;
};

}  // namespace

template <class T>
std::int64_t attention_gradient_workspace_bytes(const AttentionShape& shape, int threads) {
  Workspace shared(nullptr);
  const Gradient<T> gradient(shape, {}, shared);
  Workspace own(nullptr);
  static_cast<void>(GradientScratch<T>(own, shape));
  return shared.used() + own.used() * threads;
}

template <class T>
void attention_gradient(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* o, const float* lse,
                        const T* d_o, void* dq, void* dk, void* dv, void* workspace, int threads) {
  Workspace pieces(workspace);
  Gradient<T>(shape, {q, k, v, o, lse, d_o, dq, dk, dv}, pieces).run(pieces, threads);
}

template std::int64_t attention_gradient_workspace_bytes<float>(const AttentionShape&, int);
template std::int64_t attention_gradient_workspace_bytes<BFloat16>(const AttentionShape&, int);
template std::int64_t attention_gradient_workspace_bytes<Float16>(const AttentionShape&, int);
template void attention_gradient(const AttentionShape&, const float*, const float*, const float*, const float*,
                                 const float*, const float*, void*, void*, void*, void*, int);
template void attention_gradient(const AttentionShape&, const BFloat16*, const BFloat16*, const BFloat16*,
                                 const BFloat16*, const float*, const BFloat16*, void*, void*, void*, void*, int);
template void attention_gradient(const AttentionShape&, const Float16*, const Float16*, const Float16*, const Float16*,
                                 const float*, const Float16*, void*, void*, void*, void*, int);

}  // namespace strata::cpu::STRATA_CPU_TARGET
