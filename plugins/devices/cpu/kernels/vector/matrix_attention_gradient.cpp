#include "kernels/vector/attention_tile.hpp"
#include "kernels/vector/math.hpp"
#include "kernels/vector/matrix_attention.hpp"
#include "kernels/vector/matrix_tile.hpp"

#if defined(__AMX_BF16__)

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

static_assert(kQueries == kBlock && kKeys == kBlock);

/// What one thread needs for one head of keys. Sizes are padded to whole blocks with zeros.
struct GradientScratch {
  GradientScratch(Workspace& workspace, const AttentionShape& shape)
      : dim(round_up(shape.head_dim, kBlock)),
        kv_length(round_up(shape.kv_sequence, kBlock)),
        keys(workspace.take<BFloat16>(kv_length * dim)),
        values(workspace.take<BFloat16>(kv_length * dim)),
        key_columns(workspace.take<std::uint32_t>(dim * kv_length / 2)),
        dk(workspace.take<float>(kv_length * dim)),
        dv(workspace.take<float>(kv_length * dim)),
        rows(workspace.take<BFloat16>(kBlock * dim)),
        words(workspace.take<std::uint32_t>(kBlock * dim / 2)),
        query_columns(workspace.take<std::uint32_t>(dim / 2 * kQueries)),
        query_pairs(workspace.take<std::uint32_t>(kQueries / 2 * dim)),
        d_output_columns(workspace.take<std::uint32_t>(dim / 2 * kQueries)),
        d_output_pairs(workspace.take<std::uint32_t>(kQueries / 2 * dim)),
        d_query_columns(workspace.take<float>(dim * kQueries)),
        d_query_rows(workspace.take<float>(kQueries * dim)),
        scores(workspace.take<float>(kTileSize)),
        d_probabilities(workspace.take<float>(kTileSize)),
        probability_rows(workspace.take<BFloat16>(kTileSize)),
        d_score_rows(workspace.take<BFloat16>(kTileSize)),
        d_score_pairs(workspace.take<std::uint32_t>(kTileSize / 2)),
        factors(shape.dropout.probability > 0.0 ? workspace.take<float>(kTileSize) : nullptr),
        lse(workspace.take<float>(kQueries)),
        delta(workspace.take<float>(kQueries)) {}

  std::int64_t dim;
  std::int64_t kv_length;
  BFloat16* keys;                   // [kv_sequence][dim]
  BFloat16* values;                 // [kv_sequence][dim]
  std::uint32_t* key_columns;       // [dim][pair of keys]
  float* dk;                        // [kv_sequence][dim], without the scale
  float* dv;                        // [kv_sequence][dim]
  BFloat16* rows;                   // [block][dim]
  std::uint32_t* words;             // the same as words
  std::uint32_t* query_columns;     // [pair of dims][query]
  std::uint32_t* query_pairs;       // [pair of queries][dim]
  std::uint32_t* d_output_columns;  // [pair of dims][query]
  std::uint32_t* d_output_pairs;    // [pair of queries][dim]
  float* d_query_columns;           // [dim][query], without the scale
  float* d_query_rows;              // [query][dim]
  float* scores;                    // [key][query], before the scale
  float* d_probabilities;           // [key][query]
  BFloat16* probability_rows;       // [key][query], with dropout
  BFloat16* d_score_rows;           // [key][query], without the scale
  std::uint32_t* d_score_pairs;     // [pair of keys][query]
  float* factors;                   // [key][query]
  float* lse;                       // [query]
  float* delta;                     // [query]: sum over head_dim of o * d_o
};

struct Operands {
  const BFloat16* q;
  const BFloat16* k;
  const BFloat16* v;
  const BFloat16* o;
  const float* lse;
  const BFloat16* d_o;
  void* dq;
  void* dk;
  void* dv;
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
      const GradientScratch scratch(own, shape_);
      const MatrixTiles tiles;
      kv_head(task / shape_.kv_heads, task % shape_.kv_heads, scratch);
    });
  }

 private:
  /// dk and dv of one head of keys, and dq of the query heads that read it.
  void kv_head(std::int64_t batch, std::int64_t kv_head, const GradientScratch& scratch) const {
    pack_keys(batch, kv_head, scratch);
    const std::size_t bytes = static_cast<std::size_t>(scratch.kv_length * scratch.dim) * sizeof(float);
    __builtin_memset(scratch.dk, 0, bytes);
    __builtin_memset(scratch.dv, 0, bytes);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t query = 0; query < shape_.sequence; query += kQueries) {
        query_block(batch, head, query, scratch);
      }
    }
    write(operands_.dk, shape_.key_strides, batch, kv_head, 0, shape_.kv_sequence, scratch.dk, shape_.scale, scratch);
    write(operands_.dv, shape_.value_strides, batch, kv_head, 0, shape_.kv_sequence, scratch.dv, 1.0F, scratch);
  }

  void write(void* to, const HeadStrides& strides, std::int64_t batch, std::int64_t head, std::int64_t first,
             std::int64_t count, const float* rows, float factor, const GradientScratch& scratch) const {
    with_result<BFloat16>(shape_, to, [&](auto* result) {
      unpack_rows(count, shape_.head_dim, rows, scratch.dim, factor,
                  head_begin(result, strides, batch, head) + first * strides.sequence, strides.sequence);
    });
  }

  void pack_keys(std::int64_t batch, std::int64_t kv_head, const GradientScratch& scratch) const {
    const std::int64_t dim = scratch.dim;
    copy_padded(shape_.kv_sequence, shape_.head_dim, head_begin(operands_.k, shape_.key_strides, batch, kv_head),
                shape_.key_strides.sequence, scratch.kv_length, dim, scratch.keys);
    copy_padded(shape_.kv_sequence, shape_.head_dim, head_begin(operands_.v, shape_.value_strides, batch, kv_head),
                shape_.value_strides.sequence, scratch.kv_length, dim, scratch.values);
    for (std::int64_t key = 0; key < scratch.kv_length; key += kBlock) {
      pair_rows(kBlock, dim, scratch.keys + key * dim, dim, scratch.words, dim);
      transpose_words(kBlockWords, dim, scratch.words, dim, scratch.key_columns + key / 2, scratch.kv_length / 2);
    }
  }

  /// Packs a block of rows by columns and by pairs of rows.
  void pack_rows(std::int64_t count, const BFloat16* from, std::int64_t stride, std::uint32_t* columns,
                 std::uint32_t* pairs, const GradientScratch& scratch) const {
    const std::int64_t dim = scratch.dim;
    copy_padded(count, shape_.head_dim, from, stride, kQueries, dim, scratch.rows);
    transpose_words(kQueries, dim / 2, scratch.rows, dim / 2, columns, kQueries);
    pair_rows(kQueries, dim, scratch.rows, dim, pairs, dim);
  }

  void load_block(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t count,
                  const GradientScratch& scratch) const {
    const std::int64_t q_stride = shape_.query_strides.sequence;
    const std::int64_t o_stride = shape_.output_strides.sequence;
    const BFloat16* q = head_begin(operands_.q, shape_.query_strides, batch, head) + query * q_stride;
    const BFloat16* o = head_begin(operands_.o, shape_.output_strides, batch, head) + query * o_stride;
    const BFloat16* d_o = head_begin(operands_.d_o, shape_.output_strides, batch, head) + query * o_stride;
    const float* lse = operands_.lse + (batch * shape_.heads + head) * shape_.sequence + query;
    pack_rows(count, q, q_stride, scratch.query_columns, scratch.query_pairs, scratch);
    pack_rows(count, d_o, o_stride, scratch.d_output_columns, scratch.d_output_pairs, scratch);
    for (std::int64_t i = 0; i < kQueries; ++i) {
      // A query that sees no key, or is only padding, gets probabilities of 0.
      scratch.lse[i] = i < count && lse[i] != -kInfinity ? lse[i] : kInfinity;
      scratch.delta[i] = i < count ? dot(shape_.head_dim, o + i * o_stride, d_o + i * o_stride) : 0.0F;
    }
  }

  void query_block(std::int64_t batch, std::int64_t head, std::int64_t query, const GradientScratch& scratch) const {
    const std::int64_t dim = scratch.dim;
    const std::int64_t count = smaller(kQueries, shape_.sequence - query);
    load_block(batch, head, query, count, scratch);
    __builtin_memset(scratch.d_query_columns, 0, static_cast<std::size_t>(dim * kQueries) * sizeof(float));
    const TileDropout dropout(shape_, batch, head, queries_, query, keys_);
    for (std::int64_t key = 0; key < shape_.kv_sequence; key += kKeys) {
      const TileMask mask = tile_mask(shape_, queries_, query, keys_, key);
      if (mask == TileMask::all) continue;
      const std::int64_t key_count = smaller(kKeys, shape_.kv_sequence - key);
      if (scratch.factors != nullptr) dropout.fill(key, key_count, scratch.factors);
      multiply_block(dim, scratch.keys + key * dim, dim, scratch.query_columns, kQueries, scratch.scores, kQueries,
                     false);
      multiply_block(dim, scratch.values + key * dim, dim, scratch.d_output_columns, kQueries, scratch.d_probabilities,
                     kQueries, false);
      if (mask == TileMask::some) mask_scores(queries_, query, keys_, key, key_count, -kInfinity, scratch.scores);
      score_gradient(key_count, scratch);
      multiply_blocks(kKeys, dim, kQueries, scratch.probability_rows, kQueries, scratch.d_output_pairs, dim,
                      scratch.dv + key * dim, dim, true);
      multiply_blocks(kKeys, dim, kQueries, scratch.d_score_rows, kQueries, scratch.query_pairs, dim,
                      scratch.dk + key * dim, dim, true);
      const auto* key_columns = reinterpret_cast<const BFloat16*>(scratch.key_columns + key / 2);
      multiply_blocks(dim, kQueries, kKeys, key_columns, scratch.kv_length, scratch.d_score_pairs, kQueries,
                      scratch.d_query_columns, kQueries, true);
    }
    transpose_words(dim, kQueries, scratch.d_query_columns, kQueries, scratch.d_query_rows, dim);
    write(operands_.dq, shape_.query_strides, batch, head, query, count, scratch.d_query_rows, shape_.scale, scratch);
  }

  /// Leaves the (dropped) probabilities and the gradient of the scores, before the scale; zeros for keys that are not
  /// there.
  void score_gradient(std::int64_t key_count, const GradientScratch& scratch) const {
    for (int v = 0; v < kQueryVectors; ++v) {
      const Float lse = load(scratch.lse + v * kLanes);
      const Float delta = load(scratch.delta + v * kLanes);
      for (std::int64_t key = 0; key < kKeys; key += 2) {
        Half d_scores[2] = {};
        for (std::int64_t i = 0; i < 2; ++i) {
          const std::int64_t at = (key + i) * kQueries + v * kLanes;
          Half dropped{};
          if (key + i < key_count) {
            const Float probability = exponential(multiply_add(load(scratch.scores + at), shape_.scale, -lse));
            const Float factor = scratch.factors == nullptr ? broadcast(1.0F) : load(scratch.factors + at);
            dropped = round_to_bf16(probability * factor);
            d_scores[i] = round_to_bf16(probability * (load(scratch.d_probabilities + at) * factor - delta));
          }
          store(static_cast<void*>(scratch.probability_rows + at), dropped);
          store(static_cast<void*>(scratch.d_score_rows + at), d_scores[i]);
        }
        store(scratch.d_score_pairs + key / 2 * kQueries + v * kLanes, paired(d_scores[0], d_scores[1]));
      }
    }
  }

  const AttentionShape& shape_;
  Operands operands_;
  Positions queries_;
  Positions keys_;
};

}  // namespace

std::int64_t matrix_attention_gradient_workspace_bytes(const AttentionShape& shape, int threads) {
  Workspace shared(nullptr);
  const Gradient gradient(shape, {}, shared);
  Workspace own(nullptr);
  static_cast<void>(GradientScratch(own, shape));
  return shared.used() + own.used() * threads;
}

void matrix_attention_gradient(const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v,
                               const BFloat16* o, const float* lse, const BFloat16* d_o, void* dq, void* dk, void* dv,
                               void* workspace, int threads) {
  Workspace pieces(workspace);
  Gradient(shape, {q, k, v, o, lse, d_o, dq, dk, dv}, pieces).run(pieces, threads);
}

}  // namespace strata::cpu::STRATA_CPU_TARGET

#endif
