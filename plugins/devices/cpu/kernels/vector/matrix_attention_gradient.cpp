#include "kernels/vector/attention_gradient_loops.hpp"
#include "kernels/vector/matrix_attention.hpp"
#include "kernels/vector/matrix_tile.hpp"

#if defined(__AMX_BF16__)

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

static_assert(kQueries == kBlock && kKeys == kBlock);

/// Scratch of one thread for one head of keys. Sizes are padded with zeros to whole blocks.
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
  std::uint32_t* words;             // the memory of `rows` as words
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

/// Multiplies the tiles of one head of keys with the matrix units.
class GradientTiles {
 public:
  using Element = BFloat16;
  using Scratch = GradientScratch;

  GradientTiles(const AttentionShape& shape, const GradientScratch& scratch, const BFloat16* k, const BFloat16* v)
      : shape_(shape), scratch_(scratch) {
    const std::int64_t dim = scratch.dim;
    copy_padded(shape.kv_sequence, shape.head_dim, k, shape.key_strides.sequence, scratch.kv_length, dim, scratch.keys);
    copy_padded(shape.kv_sequence, shape.head_dim, v, shape.value_strides.sequence, scratch.kv_length, dim,
                scratch.values);
    for (std::int64_t key = 0; key < scratch.kv_length; key += kBlock) {
      pair_rows(kBlock, dim, scratch.keys + key * dim, dim, scratch.words, dim);
      transpose_words(kBlockWords, dim, scratch.words, dim, scratch.key_columns + key / 2, scratch.kv_length / 2);
    }
  }

  void load_queries(std::int64_t count, const BFloat16* q, const BFloat16* d_o) const {
    pack_rows(count, q, shape_.query_strides.sequence, scratch_.query_columns, scratch_.query_pairs);
    pack_rows(count, d_o, shape_.output_strides.sequence, scratch_.d_output_columns, scratch_.d_output_pairs);
    __builtin_memset(scratch_.d_query_columns, 0, static_cast<std::size_t>(scratch_.dim * kQueries) * sizeof(float));
  }

  void score_tile(std::int64_t key, std::int64_t /*key_count*/) const {
    const std::int64_t dim = scratch_.dim;
    multiply_block(dim, scratch_.keys + key * dim, dim, scratch_.query_columns, kQueries, scratch_.scores, kQueries,
                   false);
    multiply_block(dim, scratch_.values + key * dim, dim, scratch_.d_output_columns, kQueries, scratch_.d_probabilities,
                   kQueries, false);
  }

  void add_tile(std::int64_t key, std::int64_t key_count) const {
    score_gradient(key_count);
    const std::int64_t dim = scratch_.dim;
    multiply_blocks(kKeys, dim, kQueries, scratch_.probability_rows, kQueries, scratch_.d_output_pairs, dim,
                    scratch_.dv + key * dim, dim, true);
    multiply_blocks(kKeys, dim, kQueries, scratch_.d_score_rows, kQueries, scratch_.query_pairs, dim,
                    scratch_.dk + key * dim, dim, true);
    const auto* key_columns = reinterpret_cast<const BFloat16*>(scratch_.key_columns + key / 2);
    multiply_blocks(dim, kQueries, kKeys, key_columns, scratch_.kv_length, scratch_.d_score_pairs, kQueries,
                    scratch_.d_query_columns, kQueries, true);
  }

  template <class Result>
  void write_queries(std::int64_t count, Result* dq, std::int64_t stride) const {
    transpose_words(scratch_.dim, kQueries, scratch_.d_query_columns, kQueries, scratch_.d_query_rows, scratch_.dim);
    unpack_rows(count, shape_.head_dim, scratch_.d_query_rows, scratch_.dim, shape_.scale, dq, stride);
  }

 private:
  /// Packs a block of rows in two ways: by columns, and by pairs of rows.
  void pack_rows(std::int64_t count, const BFloat16* from, std::int64_t stride, std::uint32_t* columns,
                 std::uint32_t* pairs) const {
    const std::int64_t dim = scratch_.dim;
    copy_padded(count, shape_.head_dim, from, stride, kQueries, dim, scratch_.rows);
    transpose_words(kQueries, dim / 2, scratch_.rows, dim / 2, columns, kQueries);
    pair_rows(kQueries, dim, scratch_.rows, dim, pairs, dim);
  }

  /// Writes the probabilities after dropout, and the gradient of the scores before the scale. Missing keys become
  /// zeros.
  void score_gradient(std::int64_t key_count) const {
    for (int v = 0; v < kQueryVectors; ++v) {
      const Float lse = load(scratch_.lse + v * kLanes);
      const Float delta = load(scratch_.delta + v * kLanes);
      for (std::int64_t key = 0; key < kKeys; key += 2) {
        Half d_scores[2] = {};
        for (std::int64_t i = 0; i < 2; ++i) {
          const std::int64_t at = (key + i) * kQueries + v * kLanes;
          Half dropped{};
          if (key + i < key_count) {
            const Float probability = exponential(multiply_add(load(scratch_.scores + at), shape_.scale, -lse));
            const Float factor = scratch_.factors == nullptr ? broadcast(1.0F) : load(scratch_.factors + at);
            dropped = round_to_bf16(probability * factor);
            d_scores[i] = round_to_bf16(probability * (load(scratch_.d_probabilities + at) * factor - delta));
          }
          store(static_cast<void*>(scratch_.probability_rows + at), dropped);
          store(static_cast<void*>(scratch_.d_score_rows + at), d_scores[i]);
        }
        store(scratch_.d_score_pairs + key / 2 * kQueries + v * kLanes, paired(d_scores[0], d_scores[1]));
      }
    }
  }

  MatrixTiles tiles_;
  const AttentionShape& shape_;
  const GradientScratch& scratch_;
};

}  // namespace

std::int64_t matrix_attention_gradient_workspace_bytes(const AttentionShape& shape, int threads) {
  return attention_workspace_bytes<GradientScratch>(shape, threads);
}

void matrix_attention_gradient(const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v,
                               const BFloat16* o, const float* lse, const BFloat16* d_o, void* dq, void* dk, void* dv,
                               void* workspace, int threads) {
  AttentionGradient<GradientTiles>(shape, {q, k, v, o, lse, d_o, dq, dk, dv}).run(workspace, threads);
}

}  // namespace strata::cpu::STRATA_CPU_TARGET

#endif
