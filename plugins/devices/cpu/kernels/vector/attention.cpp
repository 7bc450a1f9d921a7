#include "kernels/attention.hpp"

#include "kernels/vector/attention_gradient.hpp"
#include "kernels/vector/attention_loops.hpp"
#include "kernels/vector/matrix_attention.hpp"

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
    const auto rows = rows_in_f32(count, dim, q, shape_.query_strides.sequence, scratch_.query_rows);
    transpose(count, dim, rows.data, rows.stride, scratch_.query, kQueries, shape_.scale);
    __builtin_memset(scratch_.output, 0, block_bytes);
  }

  void score_tile(std::int64_t key, std::int64_t key_count) const {
    const std::int64_t stride = shape_.key_strides.sequence;
    const auto keys = rows_in_f32(key_count, shape_.head_dim, k_ + key * stride, stride, scratch_.key_rows);
    tile_product(key_count, kQueryVectors, shape_.head_dim, {keys.data, keys.stride, 1}, {scratch_.query, kQueries},
                 {scratch_.scores, kQueries}, false);
  }

  void add_tile(std::int64_t key, std::int64_t key_count) {
    softmax_tile(key_count, shape_.head_dim, scratch_.scores, scratch_.output, running_);
    if (scratch_.factors != nullptr) {
      map_range(0, key_count * kQueries, scratch_.scores, scratch_.factors, scratch_.scores,
                [](Float a, Float b) { return a * b; });
    }
    const std::int64_t stride = shape_.value_strides.sequence;
    const auto values = rows_in_f32(key_count, shape_.head_dim, v_ + key * stride, stride, scratch_.value_rows);
    tile_product(shape_.head_dim, kQueryVectors, key_count, {values.data, 1, values.stride},
                 {scratch_.scores, kQueries}, {scratch_.output, kQueries}, true);
  }

  template <class Result>
  void write_queries(std::int64_t count, Result* o, float* lse) const {
    finish(count, running_, shape_.head_dim, scratch_.output, lse);
    write_rows(count, shape_.head_dim, scratch_.output, 1.0F, o, shape_.output_strides.sequence, scratch_.query_rows);
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
    ForwardTiles<T> tiles(shape, scratch, head_begin(k, shape.key_strides, block.batch, kv_head),
                          head_begin(v, shape.value_strides, block.batch, kv_head));
    tiles.load_queries(block.count, block_begin(q, shape.query_strides, block));
    each_tile(shape, mask, block, scratch, tiles);
    with_result<T>(shape, o, [&](auto* output) {
      tiles.write_queries(block.count, block_begin(output, shape.output_strides, block), block_lse(lse, shape, block));
    });
  };
  attention_tasks<Scratch>(shape, workspace, shape.batch * shape.heads * blocks, threads, attend);
}

#if defined(__AMX_BF16__)
constexpr AttentionKernels<BFloat16> kBf16Kernels = {matrix_attention_workspace_bytes, matrix_attention,
                                                     matrix_attention_gradient_workspace_bytes,
                                                     matrix_attention_gradient};
#endif

template <class T>
constexpr AttentionKernels<T> kKernels = {attention_workspace_bytes<ForwardScratch<T>>, forward<T>,
                                          attention_gradient_workspace_bytes<T>, attention_gradient<T>};

}  // namespace

const ByElement<AttentionKernels> attention_kernels = {
    kKernels<float>,
#if defined(__AMX_BF16__)
    kBf16Kernels,
#else
    kKernels<BFloat16>,
#endif
    kKernels<Float16>,
};

}  // namespace strata::cpu::STRATA_CPU_TARGET
