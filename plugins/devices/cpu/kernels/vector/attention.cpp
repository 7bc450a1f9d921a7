#include "kernels/attention.hpp"

#include "kernels/vector/attention_loops.hpp"
#include "kernels/vector/parallel.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// Scratch of one thread for one block of queries. Layout is [x][query] unless noted.
template <class T>
struct ForwardScratch {
  ForwardScratch(Workspace& workspace, const AttentionShape& shape)
      : query(workspace.take<float>(shape.head_dim * kQueries)),
        output(workspace.take<float>(shape.head_dim * kQueries)),
        scores(workspace.take<float>(kTileSize)),
        query_rows(take_rows<T>(workspace, kQueries, shape.head_dim)),
        key_rows(take_rows<T>(workspace, kKeys, shape.head_dim)),
        value_rows(take_rows<T>(workspace, kKeys, shape.head_dim)),
        factors(shape.dropout.probability > 0.0 ? workspace.take<float>(kTileSize) : nullptr) {}

  float* query;       // [head_dim][query], scaled
  float* output;      // [head_dim][query], not yet divided by the sum
  float* scores;      // then probabilities, [key][query]
  float* query_rows;  // [query][head_dim]: queries, at the end outputs
  float* key_rows;    // [key][head_dim]
  float* value_rows;  // [key][head_dim]
  float* factors;
};

/// Replaces scores by exp(score - new maximum), and rescales the running sums to the new maximum.
void softmax_tile(std::int64_t key_count, std::int64_t head_dim, float* scores, float* output, Running& running) {
  Float rescale[kQueryVectors];
  for (int v = 0; v < kQueryVectors; ++v) {
    float* column = scores + v * kLanes;
    Float highest = running.maximum[v];
    for (std::int64_t j = 0; j < key_count; ++j) highest = maximum(highest, load(column + j * kQueries));
    const Float shift = select(highest == broadcast(-kInfinity), Float{}, highest);
    rescale[v] = exponential(running.maximum[v] - shift);
    Float sum = running.sum[v] * rescale[v];
    for (std::int64_t j = 0; j < key_count; ++j) {
      const Float probability = exponential(load(column + j * kQueries) - shift);
      store(column + j * kQueries, probability);
      sum += probability;
    }
    running.maximum[v] = highest;
    running.sum[v] = sum;
  }
  scale_output(head_dim, rescale, output);
}

/// Multiplies the tiles of one block of queries with vector instructions.
template <class T>
class ForwardTiles {
 public:
  ForwardTiles(const AttentionShape& shape, const ForwardScratch<T>& scratch, const T* k, const T* v)
      : shape_(shape), scratch_(scratch), k_(k), v_(v) {}

  void load_queries(std::int64_t count, const T* q) {
    const std::int64_t dim = shape_.head_dim;
    const std::size_t block_bytes = static_cast<std::size_t>(dim * kQueries) * sizeof(float);
    if (count < kQueries) __builtin_memset(scratch_.query, 0, block_bytes);
    const auto rows = rows_in_f32(count, dim, q, query_stride(shape_), scratch_.query_rows);
    transpose(count, dim, rows.data, rows.stride, scratch_.query, kQueries, shape_.scale);
    __builtin_memset(scratch_.output, 0, block_bytes);
  }

  void score_tile(std::int64_t key, std::int64_t key_count) const {
    const std::int64_t stride = key_stride(shape_);
    const auto keys = rows_in_f32(key_count, shape_.head_dim, k_ + key * stride, stride, scratch_.key_rows);
    tile_product(key_count, kQueryVectors, shape_.head_dim, {keys.data, keys.stride, 1}, {scratch_.query, kQueries},
                 {scratch_.scores, kQueries}, false);
    cap_scores(key_count, shape_.cap, scratch_.scores);
  }

  void add_tile(std::int64_t key, std::int64_t key_count) {
    softmax_tile(key_count, shape_.head_dim, scratch_.scores, scratch_.output, running_);
    if (scratch_.factors != nullptr) {
      map_range(0, key_count * kQueries, scratch_.scores, scratch_.factors, scratch_.scores,
                [](Float a, Float b) { return a * b; });
    }
    const std::int64_t stride = key_stride(shape_);
    const auto values = rows_in_f32(key_count, shape_.head_dim, v_ + key * stride, stride, scratch_.value_rows);
    tile_product(shape_.head_dim, kQueryVectors, key_count, {values.data, 1, values.stride},
                 {scratch_.scores, kQueries}, {scratch_.output, kQueries}, true);
  }

  template <class Result>
  void write_queries(std::int64_t count, Result* o, float* lse) const {
    finish(count, running_, shape_.head_dim, scratch_.output, lse);
    write_rows(count, shape_.head_dim, scratch_.output, 1.0F, o, query_stride(shape_), scratch_.query_rows);
  }

 private:
  const AttentionShape& shape_;
  const ForwardScratch<T>& scratch_;
  const T* k_;
  const T* v_;
  Running running_;
};

template <class T>
void forward(const AttentionShape& shape, const T* q, const T* k, const T* v, void* o, float* lse, void* workspace,
             int threads) {
  using Scratch = ForwardScratch<T>;
  const std::int64_t blocks = divide_up(shape.sequence, kQueries);
  const auto attend = [&](std::int64_t task, const AttentionMask& mask, const Scratch& scratch) {
    // The last queries see the most keys, so they are started first to balance the threads.
    const std::int64_t begin = (blocks - 1 - task % blocks) * kQueries;
    const QueryBlock block = query_block(shape, task / blocks / shape.heads, task / blocks % shape.heads, begin);
    const std::int64_t kv_head = block.head / (shape.heads / shape.kv_heads);
    ForwardTiles<T> tiles(shape, scratch, key_head(shape, k, block.batch, kv_head),
                          key_head(shape, v, block.batch, kv_head));
    tiles.load_queries(block.count, block_begin(shape, q, block));
    each_tile(shape, mask, block, scratch, tiles);
    with_result<T>(shape, o, [&](auto* output) {
      tiles.write_queries(block.count, block_begin(shape, output, block), block_lse(lse, shape, block));
    });
  };
  attention_tasks<Scratch>(shape, workspace, shape.batch * shape.heads * blocks, threads, attend);
}

/// Scratch of one thread for one head of keys. Rows of head_dim are padded with zeros to whole vectors.
template <class T>
struct GradientScratch {
  GradientScratch(Workspace& workspace, const AttentionShape& shape)
      : dim(round_up(shape.head_dim, kLanes)),
        kv_length(shape.kv_sequence),
        dk(workspace.take<float>(shape.kv_sequence * dim)),
        dv(workspace.take<float>(shape.kv_sequence * dim)),
        query(workspace.take<float>(kQueries * dim)),
        d_output(workspace.take<float>(kQueries * dim)),
        query_columns(workspace.take<float>(shape.head_dim * kQueries)),
        d_output_columns(workspace.take<float>(shape.head_dim * kQueries)),
        d_query_columns(workspace.take<float>(shape.head_dim * kQueries)),
        scores(workspace.take<float>(kTileSize)),
        d_scores(workspace.take<float>(kTileSize)),
        key_rows(take_rows<T>(workspace, kKeys, shape.head_dim)),
        value_rows(take_rows<T>(workspace, kKeys, shape.head_dim)),
        d_query_rows(take_rows<T>(workspace, kQueries, shape.head_dim)),
        factors(shape.dropout.probability > 0.0 ? workspace.take<float>(kTileSize) : nullptr),
        lse(workspace.take<float>(kQueries)),
        delta(workspace.take<float>(kQueries)) {}

  std::int64_t dim;
  std::int64_t kv_length;
  float* dk;                // [kv_sequence][dim], without the scale
  float* dv;                // [kv_sequence][dim]
  float* query;             // [query][dim]
  float* d_output;          // [query][dim]
  float* query_columns;     // [head_dim][query], scaled
  float* d_output_columns;  // [head_dim][query]
  float* d_query_columns;   // [head_dim][query], without the scale
  float* scores;            // [key][query], then probabilities with dropout
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

/// Multiplies the tiles of one head of keys with vector instructions.
template <class T>
class GradientTiles {
 public:
  using Element = T;
  using Scratch = GradientScratch<T>;

  GradientTiles(const AttentionShape& shape, const Scratch& scratch, const T* k, const T* v)
      : shape_(shape), scratch_(scratch), k_(k), v_(v) {}

  void load_queries(std::int64_t count, const T* q, const T* d_o) const {
    const std::int64_t head_dim = shape_.head_dim;
    pack_rows(count, head_dim, q, query_stride(shape_), scratch_.dim, scratch_.query);
    pack_rows(count, head_dim, d_o, query_stride(shape_), scratch_.dim, scratch_.d_output);
    transpose(kQueries, head_dim, scratch_.query, scratch_.dim, scratch_.query_columns, kQueries, shape_.scale);
    transpose(kQueries, head_dim, scratch_.d_output, scratch_.dim, scratch_.d_output_columns, kQueries, 1.0F);
    __builtin_memset(scratch_.d_query_columns, 0, static_cast<std::size_t>(head_dim * kQueries) * sizeof(float));
  }

  void score_tile(std::int64_t key, std::int64_t key_count) {
    const std::int64_t stride = key_stride(shape_);
    keys_ = rows_in_f32(key_count, shape_.head_dim, k_ + key * stride, stride, scratch_.key_rows);
    values_ = rows_in_f32(key_count, shape_.head_dim, v_ + key * stride, stride, scratch_.value_rows);
    tile_product(key_count, kQueryVectors, shape_.head_dim, {keys_.data, keys_.stride, 1},
                 {scratch_.query_columns, kQueries}, {scratch_.scores, kQueries}, false);
    cap_scores(key_count, shape_.cap, scratch_.scores);
    tile_product(key_count, kQueryVectors, shape_.head_dim, {values_.data, values_.stride, 1},
                 {scratch_.d_output_columns, kQueries}, {scratch_.d_scores, kQueries}, false);
  }

  void add_tile(std::int64_t key, std::int64_t key_count) const {
    score_gradient(key_count);
    const std::int64_t dim = scratch_.dim;
    const std::int64_t vectors = dim / kLanes;
    tile_product(key_count, vectors, kQueries, {scratch_.scores, kQueries, 1}, {scratch_.d_output, dim},
                 {scratch_.dv + key * dim, dim}, true);
    tile_product(key_count, vectors, kQueries, {scratch_.d_scores, kQueries, 1}, {scratch_.query, dim},
                 {scratch_.dk + key * dim, dim}, true);
    tile_product(shape_.head_dim, kQueryVectors, key_count, {keys_.data, 1, keys_.stride},
                 {scratch_.d_scores, kQueries}, {scratch_.d_query_columns, kQueries}, true);
  }

  template <class Result>
  void write_queries(std::int64_t count, Result* dq) const {
    write_rows(count, shape_.head_dim, scratch_.d_query_columns, shape_.scale, dq, query_stride(shape_),
               scratch_.d_query_rows);
  }

 private:
  /// Writes the probabilities after dropout, and the gradient of the scores before the scale.
  void score_gradient(std::int64_t key_count) const {
    for (int vector = 0; vector < kQueryVectors; ++vector) {
      const Float lse = load(scratch_.lse + vector * kLanes);
      const Float delta = load(scratch_.delta + vector * kLanes);
      for (std::int64_t at = vector * kLanes; at < key_count * kQueries; at += kQueries) {
        const Float score = load(scratch_.scores + at);
        const Float probability = exponential(score - lse);
        const Float factor = scratch_.factors == nullptr ? broadcast(1.0F) : load(scratch_.factors + at);
        Float d_score = probability * (load(scratch_.d_scores + at) * factor - delta);
        if (shape_.cap != 0.0F) d_score *= soft_cap_slope(score, shape_.cap);
        store(scratch_.scores + at, probability * factor);
        store(scratch_.d_scores + at, d_score);
      }
    }
  }

  const AttentionShape& shape_;
  const Scratch& scratch_;
  const T* k_;
  const T* v_;
  // Keys and values of the current tile.
  TileRows<const float*> keys_{};
  TileRows<const float*> values_{};
};

template <class T>
void attention_gradient(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* o, const float* lse,
                        const T* d_o, void* dq, void* dk, void* dv, void* workspace, int threads) {
  AttentionGradient<GradientTiles<T>>(shape, {q, k, v, o, lse, d_o, dq, dk, dv}).run(workspace, threads);
}

template <class T>
constexpr AttentionKernels<T> kKernels = {attention_workspace_bytes<ForwardScratch<T>>, forward<T>,
                                          attention_workspace_bytes<GradientScratch<T>>, attention_gradient<T>};

#if defined(__AMX_BF16__)
/// The matrix units keep scores that are not scaled, so a bias has the vector units.
constexpr AttentionKernels<BFloat16> kMatrixKernels = {
    [](const AttentionShape& shape, int threads) {
      const auto& kernels = shape.has_bias ? kKernels<BFloat16> : matrix_attention_kernels;
      return kernels.forward_workspace_bytes(shape, threads);
    },
    [](const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v, void* o, float* lse,
       void* workspace, int threads) {
      const auto& kernels = shape.has_bias ? kKernels<BFloat16> : matrix_attention_kernels;
      kernels.forward(shape, q, k, v, o, lse, workspace, threads);
    },
    [](const AttentionShape& shape, int threads) {
      const auto& kernels = shape.has_bias ? kKernels<BFloat16> : matrix_attention_kernels;
      return kernels.gradient_workspace_bytes(shape, threads);
    },
    [](const AttentionShape& shape, const BFloat16* q, const BFloat16* k, const BFloat16* v, const BFloat16* o,
       const float* lse, const BFloat16* d_o, void* dq, void* dk, void* dv, void* workspace, int threads) {
      const auto& kernels = shape.has_bias ? kKernels<BFloat16> : matrix_attention_kernels;
      kernels.gradient(shape, q, k, v, o, lse, d_o, dq, dk, dv, workspace, threads);
    }};
#endif

/// The weight of each of the two outputs, and the log-sum-exp of both.
struct Weights {
  float first = 0.0F;
  float second = 0.0F;
  float log_sum = -kInfinity;
};

Weights weights(float first, float second) {
  const float largest = first > second ? first : second;
  if (largest == -kInfinity) return {};
  const float a = __builtin_expf(first - largest);
  const float b = __builtin_expf(second - largest);
  return {a / (a + b), b / (a + b), largest + __builtin_logf(a + b)};
}

void merge(const AttentionOutputShape& shape, const float* o1, const float* l1, const float* o2, const float* l2,
           float* o, float* l, int threads) {
  const std::int64_t width = shape.head_dim;
  parallel_rows(threads, shape.batch * shape.sequence, shape.heads * width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t batch = token / shape.sequence;
      const std::int64_t query = token % shape.sequence;
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::int64_t row = (batch * shape.heads + head) * shape.sequence + query;
        const std::int64_t at = (token * shape.heads + head) * width;
        const Weights of = weights(l1[row], l2[row]);
        map_range(0, width, o1 + at, o2 + at, o + at, [of](Float a, Float b) { return of.first * a + of.second * b; });
        l[row] = of.log_sum;
      }
    }
  });
}

}  // namespace

const ByElement<AttentionKernels> attention_kernels = {
    kKernels<float>,
#if defined(__AMX_BF16__)
    kMatrixKernels,
#else
    kKernels<BFloat16>,
#endif
    kKernels<Float16>,
};

const AttentionMergeKernels attention_merge_kernels = {merge};

}  // namespace strata::cpu::STRATA_CPU_TARGET
