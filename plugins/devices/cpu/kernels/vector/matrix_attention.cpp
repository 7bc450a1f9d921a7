#include "kernels/vector/matrix_attention.hpp"

#include "kernels/vector/attention_tile.hpp"
#include "kernels/vector/math.hpp"
#include "kernels/vector/matrix_tile.hpp"

#if defined(__AMX_BF16__)

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

static_assert(kQueries == kBlock && kKeys == kBlock);

/// What one thread needs for one head of keys. Sizes are padded to whole blocks with zeros.
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
  std::uint32_t* words;          // the same as words
  std::uint32_t* queries;        // [pair of dims][query]
  float* scores;                 // [key][query], before the scale
  std::uint32_t* probabilities;  // [pair of keys][query]
  float* output;                 // [dim][query], not yet divided by the sum
  float* output_rows;            // [query][dim]
  float* factors;                // [key][query]
};

/// The running maximum and sum of each query's exponentials.
struct Running {
  Float maximum[kQueryVectors];
  Float sum[kQueryVectors];
};

void scale_output(std::int64_t dim, const Float* factor, float* output) {
  for (std::int64_t d = 0; d < dim; ++d) {
    for (int v = 0; v < kQueryVectors; ++v) {
      float* value = output + d * kQueries + v * kLanes;
      store(value, load(value) * factor[v]);
    }
  }
}

/// The highest of the first `key_count` scores of each query.
void highest_scores(std::int64_t key_count, const float* scores, Float* highest) {
  // Two keys at a time, so that not every maximum waits for the one before it.
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

/// Turns scores into exp(scale * score - shift), dropped out, as pairs of keys, and adds up what was not dropped yet.
/// Zeros for keys that are not there.
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

/// Turns scores into probabilities relative to the new maximum; what was summed up so far is scaled to that.
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

class Forward {
 public:
  Forward(const AttentionShape& shape, Workspace& workspace)
      : shape_(shape), queries_(workspace, shape.sequence, kQueries), keys_(workspace, shape.kv_sequence, kKeys) {}

  void run(const BFloat16* q, const BFloat16* k, const BFloat16* v, void* o, float* lse, Workspace& workspace,
           int threads) {
    queries_.fill(shape_.query_positions);
    keys_.fill(shape_.key_positions);
    Workspace first = workspace;
    static_cast<void>(ForwardScratch(first, shape_));
    const std::int64_t scratch_bytes = first.used() - workspace.used();
    char* scratch_begin = workspace.take<char>(scratch_bytes * threads);
    parallel_tasks(threads, shape_.batch * shape_.kv_heads, [&](std::int64_t task, int thread) {
      Workspace own(scratch_begin + thread * scratch_bytes);
      const ForwardScratch scratch(own, shape_);
      const MatrixTiles tiles;
      kv_head(task / shape_.kv_heads, task % shape_.kv_heads, q, k, v, o, lse, scratch);
    });
  }

 private:
  /// The query heads that read one head of keys.
  void kv_head(std::int64_t batch, std::int64_t kv_head, const BFloat16* q, const BFloat16* k, const BFloat16* v,
               void* o, float* lse, const ForwardScratch& scratch) const {
    copy_padded(shape_.kv_sequence, shape_.head_dim, head_begin(k, shape_.key_strides, batch, kv_head),
                shape_.key_strides.sequence, 2 * scratch.kv_words, scratch.dim, scratch.keys);
    pack_values(head_begin(v, shape_.value_strides, batch, kv_head), scratch);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const BFloat16* head_q = head_begin(q, shape_.query_strides, batch, head);
      float* head_lse = lse + (batch * shape_.heads + head) * shape_.sequence;
      for (std::int64_t query = 0; query < shape_.sequence; query += kQueries) {
        query_block(batch, head, query, head_q, head_lse, scratch);
        write_output(batch, head, query, o, scratch);
      }
    }
  }

  void pack_values(const BFloat16* v, const ForwardScratch& scratch) const {
    const std::int64_t stride = shape_.value_strides.sequence;
    for (std::int64_t key = 0; key < shape_.kv_sequence; key += kBlock) {
      copy_padded(smaller(kBlock, shape_.kv_sequence - key), shape_.head_dim, v + key * stride, stride, kBlock,
                  scratch.dim, scratch.rows);
      pair_rows(kBlock, scratch.dim, scratch.rows, scratch.dim, scratch.words, scratch.dim);
      transpose_words(kBlockWords, scratch.dim, scratch.words, scratch.dim, scratch.values + key / 2, scratch.kv_words);
    }
  }

  /// Leaves the output of a block of queries in scratch.output, divided by the sums.
  void query_block(std::int64_t batch, std::int64_t head, std::int64_t query, const BFloat16* q, float* lse,
                   const ForwardScratch& scratch) const {
    const std::int64_t query_count = smaller(kQueries, shape_.sequence - query);
    const std::int64_t stride = shape_.query_strides.sequence;
    copy_padded(query_count, shape_.head_dim, q + query * stride, stride, kQueries, scratch.dim, scratch.rows);
    transpose_words(kQueries, scratch.dim / 2, scratch.rows, scratch.dim / 2, scratch.queries, kQueries);
    __builtin_memset(scratch.output, 0, static_cast<std::size_t>(scratch.dim * kQueries) * sizeof(float));
    Running running;
    for (int i = 0; i < kQueryVectors; ++i) running.maximum[i] = broadcast(-kInfinity), running.sum[i] = Float{};
    const TileDropout dropout(shape_, batch, head, queries_, query, keys_);
    for (std::int64_t key = 0; key < shape_.kv_sequence; key += kKeys) {
      const TileMask mask = tile_mask(shape_, queries_, query, keys_, key);
      if (mask == TileMask::all) continue;
      const std::int64_t key_count = smaller(kKeys, shape_.kv_sequence - key);
      multiply_block(scratch.dim, scratch.keys + key * scratch.dim, scratch.dim, scratch.queries, kQueries,
                     scratch.scores, kQueries, false);
      if (mask == TileMask::some) mask_scores(queries_, query, keys_, key, key_count, -kInfinity, scratch.scores);
      if (scratch.factors != nullptr) dropout.fill(key, key_count, scratch.factors);
      softmax_tile(key_count, shape_.scale, scratch, running);
      const auto* values = reinterpret_cast<const BFloat16*>(scratch.values + key / 2);
      multiply_blocks(scratch.dim, kQueries, kKeys, values, 2 * scratch.kv_words, scratch.probabilities, kQueries,
                      scratch.output, kQueries, true);
    }
    finish(query_count, running, scratch, lse + query);
  }

  void finish(std::int64_t query_count, const Running& running, const ForwardScratch& scratch, float* lse) const {
    Float inverse[kQueryVectors];
    for (int v = 0; v < kQueryVectors; ++v) {
      inverse[v] = select(running.sum[v] == Float{}, Float{}, 1.0F / running.sum[v]);
      for (std::int64_t lane = 0; lane < kLanes && v * kLanes + lane < query_count; ++lane) {
        const float sum = running.sum[v][lane];
        lse[v * kLanes + lane] = sum == 0.0F ? -kInfinity : running.maximum[v][lane] + __builtin_logf(sum);
      }
    }
    scale_output(scratch.dim, inverse, scratch.output);
    transpose_words(scratch.dim, kQueries, scratch.output, kQueries, scratch.output_rows, scratch.dim);
  }

  void write_output(std::int64_t batch, std::int64_t head, std::int64_t query, void* o,
                    const ForwardScratch& scratch) const {
    const std::int64_t stride = shape_.output_strides.sequence;
    with_result<BFloat16>(shape_, o, [&](auto* output) {
      unpack_rows(smaller(kQueries, shape_.sequence - query), shape_.head_dim, scratch.output_rows, scratch.dim, 1.0F,
                  head_begin(output, shape_.output_strides, batch, head) + query * stride, stride);
    });
  }

  const AttentionShape& shape_;
  Positions queries_;
  Positions keys_;
};

}  // namespace

std::int64_t matrix_attention_workspace_bytes(const AttentionShape& shape, int threads) {
  Workspace shared(nullptr);
  const Forward forward(shape, shared);
  Workspace own(nullptr);
  static_cast<void>(ForwardScratch(own, shape));
  return shared.used() + own.used() * threads;
}

void matrix_attention(const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v, void* o,
                      float* lse, void* workspace, int threads) {
  Workspace pieces(workspace);
  Forward(shape, pieces).run(q, k, v, o, lse, pieces, threads);
}

}  // namespace strata::cpu::STRATA_CPU_TARGET

#endif
