#include "kernels/vector/attention_loops.hpp"
#include "kernels/vector/matrix_tile.hpp"

#if defined(__AMX_BF16__)

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

static_assert(kQueries == kBlock && kKeys == kBlock);

/// Scratch of one thread for one head of keys. Sizes are padded with zeros to whole blocks.
struct ForwardScratch {
  ForwardScratch(Workspace& workspace, const AttentionShape& shape)
      : dim(round_up(shape.head_dim, kBlock)),
        kv_words(round_up(shape.kv_sequence, kBlock) / 2),
        keys(workspace.take<BFloat16>(2 * kv_words * dim)),
        values(workspace.take<std::uint32_t>(dim * kv_words)),
        rows(workspace.take<BFloat16>(kBlock * dim)),
        words(workspace.take<std::uint32_t>(kBlock * dim / 2)),
        queries(workspace.take<std::uint32_t>(dim / 2 * kQueries)),
        scores(workspace.take<float>(kTileSize)),
        probabilities(workspace.take<std::uint32_t>(kTileSize / 2)),
        output(workspace.take<float>(dim * kQueries)),
        output_rows(workspace.take<float>(kQueries * dim)),
        factors(shape.dropout.probability > 0.0 ? workspace.take<float>(kTileSize) : nullptr) {}

  std::int64_t dim;
  std::int64_t kv_words;
  BFloat16* keys;                // [kv_sequence][dim]
  std::uint32_t* values;         // [dim][pair of keys]
  BFloat16* rows;                // [block][dim]
  std::uint32_t* words;          // the memory of `rows` as words
  std::uint32_t* queries;        // [pair of dims][query]
  float* scores;                 // [key][query], before the scale
  std::uint32_t* probabilities;  // [pair of keys][query]
  float* output;                 // [dim][query], not yet divided by the sum
  float* output_rows;            // [query][dim]
  float* factors;                // [key][query]
};

/// The maximum of the first `key_count` scores of each query.
void highest_scores(std::int64_t key_count, const float* scores, Float* highest) {
  // Two independent chains of maxima, so that not every maximum waits for the one before it.
  Float other[kQueryVectors];
  for (int v = 0; v < kQueryVectors; ++v) highest[v] = other[v] = load(scores + v * kLanes);
  std::int64_t j = 1;
  for (; j + 2 <= key_count; j += 2) {
    for (int v = 0; v < kQueryVectors; ++v) {
      highest[v] = maximum(highest[v], load(scores + j * kQueries + v * kLanes));
      other[v] = maximum(other[v], load(scores + (j + 1) * kQueries + v * kLanes));
    }
  }
  for (int v = 0; v < kQueryVectors; ++v) {
    if (j < key_count) highest[v] = maximum(highest[v], load(scores + j * kQueries + v * kLanes));
    highest[v] = maximum(highest[v], other[v]);
  }
}

/// Replaces scores by exp(scale * score - shift), applies dropout and writes pairs of keys. Adds the values before
/// dropout to `sum`. Missing keys become zeros.
void write_probabilities(std::int64_t key_count, float scale, const Float* shift, const ForwardScratch& scratch,
                         Float* sum) {
  Float odd_sum[kQueryVectors] = {};
  const auto exponential_at = [&](std::int64_t j, int v) {
    return exponential(multiply_add(load(scratch.scores + j * kQueries + v * kLanes), scale, -shift[v]));
  };
  const auto dropped = [&](Float value, std::int64_t j, int v) {
    return scratch.factors == nullptr ? value : value * load(scratch.factors + j * kQueries + v * kLanes);
  };
  std::uint32_t* to = scratch.probabilities;
  std::int64_t j = 0;
  for (; j + 1 < key_count; j += 2, to += kQueries) {
    STRATA_UNROLL
    for (int v = 0; v < kQueryVectors; ++v) {
      const Float even = exponential_at(j, v);
      const Float odd = exponential_at(j + 1, v);
      sum[v] += even;
      odd_sum[v] += odd;
      store(to + v * kLanes, paired(round_to_bf16(dropped(even, j, v)), round_to_bf16(dropped(odd, j + 1, v))));
    }
  }
  for (; j < kKeys; j += 2, to += kQueries) {
    for (int v = 0; v < kQueryVectors; ++v) {
      const Float last = j < key_count ? exponential_at(j, v) : Float{};
      sum[v] += last;
      store(to + v * kLanes, j < key_count ? paired(round_to_bf16(dropped(last, j, v)), Half{}) : Word{});
    }
  }
  for (int v = 0; v < kQueryVectors; ++v) sum[v] += odd_sum[v];
}

/// Replaces scores by probabilities relative to the new maximum, and rescales the running sums to it.
void softmax_tile(std::int64_t key_count, float scale, const ForwardScratch& scratch, Running& running) {
  Float highest[kQueryVectors];
  Float shift[kQueryVectors];
  Float rescale[kQueryVectors];
  bool changed = false;
  highest_scores(key_count, scratch.scores, highest);
  for (int v = 0; v < kQueryVectors; ++v) {
    const Float now = maximum(running.maximum[v], highest[v] * scale);
    shift[v] = select(now == broadcast(-kInfinity), Float{}, now);
    rescale[v] = exponential(running.maximum[v] - shift[v]);
    changed = changed || !all_equal(running.maximum[v], now);
    running.maximum[v] = now;
    running.sum[v] *= rescale[v];
  }
  write_probabilities(key_count, scale, shift, scratch, running.sum);
  if (changed) scale_output(scratch.dim, rescale, scratch.output);
}

/// Multiplies the tiles of one head of keys with the matrix units.
class ForwardTiles {
 public:
  ForwardTiles(const AttentionShape& shape, const ForwardScratch& scratch, const BFloat16* k, const BFloat16* v)
      : shape_(shape), scratch_(scratch) {
    copy_padded(shape.kv_sequence, shape.head_dim, k, key_stride(shape), 2 * scratch.kv_words, scratch.dim,
                scratch.keys);
    pack_values(v);
  }

  void load_queries(std::int64_t count, const BFloat16* q) {
    copy_padded(count, shape_.head_dim, q, query_stride(shape_), kQueries, scratch_.dim, scratch_.rows);
    transpose_words(kQueries, scratch_.dim / 2, scratch_.rows, scratch_.dim / 2, scratch_.queries, kQueries);
    __builtin_memset(scratch_.output, 0, static_cast<std::size_t>(scratch_.dim * kQueries) * sizeof(float));
    running_ = Running();
  }

  void score_tile(std::int64_t key, std::int64_t key_count) const {
    multiply_block(scratch_.dim, scratch_.keys + key * scratch_.dim, scratch_.dim, scratch_.queries, kQueries,
                   scratch_.scores, kQueries, false);
    cap_scores(key_count, shape_.cap / shape_.scale, scratch_.scores);
  }

  void add_tile(std::int64_t key, std::int64_t key_count) {
    softmax_tile(key_count, shape_.scale, scratch_, running_);
    const auto* values = reinterpret_cast<const BFloat16*>(scratch_.values + key / 2);
    multiply_blocks(scratch_.dim, kQueries, kKeys, values, 2 * scratch_.kv_words, scratch_.probabilities, kQueries,
                    scratch_.output, kQueries, true);
  }

  template <class Result>
  void write_queries(std::int64_t count, Result* o, float* lse) const {
    finish(count, running_, scratch_.dim, scratch_.output, lse);
    transpose_words(scratch_.dim, kQueries, scratch_.output, kQueries, scratch_.output_rows, scratch_.dim);
    unpack_rows(count, shape_.head_dim, scratch_.output_rows, scratch_.dim, 1.0F, o, query_stride(shape_));
  }

 private:
  void pack_values(const BFloat16* v) const {
    const std::int64_t stride = key_stride(shape_);
    for (std::int64_t key = 0; key < shape_.kv_sequence; key += kBlock) {
      copy_padded(smaller(kBlock, shape_.kv_sequence - key), shape_.head_dim, v + key * stride, stride, kBlock,
                  scratch_.dim, scratch_.rows);
      pair_rows(kBlock, scratch_.dim, scratch_.rows, scratch_.dim, scratch_.words, scratch_.dim);
      transpose_words(kBlockWords, scratch_.dim, scratch_.words, scratch_.dim, scratch_.values + key / 2,
                      scratch_.kv_words);
    }
  }

  MatrixTiles tiles_;
  const AttentionShape& shape_;
  const ForwardScratch& scratch_;
  Running running_;
};

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
    copy_padded(shape.kv_sequence, shape.head_dim, k, key_stride(shape), scratch.kv_length, dim, scratch.keys);
    copy_padded(shape.kv_sequence, shape.head_dim, v, key_stride(shape), scratch.kv_length, dim, scratch.values);
    for (std::int64_t key = 0; key < scratch.kv_length; key += kBlock) {
      pair_rows(kBlock, dim, scratch.keys + key * dim, dim, scratch.words, dim);
      transpose_words(kBlockWords, dim, scratch.words, dim, scratch.key_columns + key / 2, scratch.kv_length / 2);
    }
  }

  void load_queries(std::int64_t count, const BFloat16* q, const BFloat16* d_o) const {
    pack_rows(count, q, query_stride(shape_), scratch_.query_columns, scratch_.query_pairs);
    pack_rows(count, d_o, query_stride(shape_), scratch_.d_output_columns, scratch_.d_output_pairs);
    __builtin_memset(scratch_.d_query_columns, 0, static_cast<std::size_t>(scratch_.dim * kQueries) * sizeof(float));
  }

  void score_tile(std::int64_t key, std::int64_t key_count) const {
    const std::int64_t dim = scratch_.dim;
    multiply_block(dim, scratch_.keys + key * dim, dim, scratch_.query_columns, kQueries, scratch_.scores, kQueries,
                   false);
    multiply_block(dim, scratch_.values + key * dim, dim, scratch_.d_output_columns, kQueries, scratch_.d_probabilities,
                   kQueries, false);
    cap_scores(key_count, shape_.cap / shape_.scale, scratch_.scores);
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
  void write_queries(std::int64_t count, Result* dq) const {
    transpose_words(scratch_.dim, kQueries, scratch_.d_query_columns, kQueries, scratch_.d_query_rows, scratch_.dim);
    unpack_rows(count, shape_.head_dim, scratch_.d_query_rows, scratch_.dim, shape_.scale, dq, query_stride(shape_));
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
            const Float score = load(scratch_.scores + at);
            const Float probability = exponential(multiply_add(score, shape_.scale, -lse));
            const Float factor = scratch_.factors == nullptr ? broadcast(1.0F) : load(scratch_.factors + at);
            Float d_score = probability * (load(scratch_.d_probabilities + at) * factor - delta);
            if (shape_.cap != 0.0F) d_score *= soft_cap_slope(score, shape_.cap / shape_.scale);
            dropped = round_to_bf16(probability * factor);
            d_scores[i] = round_to_bf16(d_score);
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

void forward(const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v, void* o, float* lse,
             void* workspace, int threads) {
  // Computes the query heads that read one head of keys.
  const auto attend = [&](std::int64_t task, const AttentionMask& mask, const ForwardScratch& scratch) {
    const std::int64_t batch = task / shape.kv_heads;
    const std::int64_t kv_head = task % shape.kv_heads;
    ForwardTiles tiles(shape, scratch, key_head(shape, k, batch, kv_head), key_head(shape, v, batch, kv_head));
    const std::int64_t group = shape.heads / shape.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t query = 0; query < shape.sequence; query += kQueries) {
        const QueryBlock block = query_block(shape, batch, head, query);
        tiles.load_queries(block.count, block_begin(shape, q, block));
        each_tile(shape, mask, block, scratch, tiles);
        with_result<BFloat16>(shape, o, [&](auto* output) {
          tiles.write_queries(block.count, block_begin(shape, output, block), block_lse(lse, shape, block));
        });
      }
    }
  };
  attention_tasks<ForwardScratch>(shape, workspace, shape.batch * shape.kv_heads, threads, attend);
}

void gradient(const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v, const BFloat16* o,
              const float* lse, const BFloat16* d_o, void* dq, void* dk, void* dv, void* workspace, int threads) {
  AttentionGradient<GradientTiles>(shape, {q, k, v, o, lse, d_o, dq, dk, dv}).run(workspace, threads);
}

}  // namespace

const AttentionKernels<BFloat16> matrix_attention_kernels = {attention_workspace_bytes<ForwardScratch>, forward,
                                                             attention_workspace_bytes<GradientScratch>, gradient};

}  // namespace strata::cpu::STRATA_CPU_TARGET

#endif
