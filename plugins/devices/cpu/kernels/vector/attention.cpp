#include "kernels/attention.hpp"

#include "kernels/vector/attention_gradient.hpp"
#include "kernels/vector/attention_tile.hpp"
#include "kernels/vector/math.hpp"
#include "kernels/vector/matrix_attention.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/target.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// What one thread needs for one block of queries; [x][query] unless said.
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

/// The running maximum and sum of each query's exponentials.
struct Running {
  Float maximum[kQueryVectors];
  Float sum[kQueryVectors];
};

/// Scores become exp(score - new maximum); what was summed up so far is scaled to the new maximum.
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
  for (std::int64_t d = 0; d < head_dim; ++d) {
    for (int v = 0; v < kQueryVectors; ++v) {
      float* value = output + d * kQueries + v * kLanes;
      store(value, load(value) * rescale[v]);
    }
  }
}

template <class T>
class Forward {
 public:
  Forward(const AttentionShape& shape, Workspace& workspace)
      : shape_(shape), queries_(workspace, shape.sequence, kQueries), keys_(workspace, shape.kv_sequence, kKeys) {}

  void run(const T* q, const T* k, const T* v, void* o, float* lse, Workspace& workspace, int threads) {
    queries_.fill(shape_.query_positions);
    keys_.fill(shape_.key_positions);
    const std::int64_t blocks = divide_up(shape_.sequence, kQueries);
    Workspace first = workspace;
    static_cast<void>(ForwardScratch<T>(first, shape_));
    const std::int64_t scratch_bytes = first.used() - workspace.used();
    char* scratch_begin = workspace.take<char>(scratch_bytes * threads);
    // The last queries see the most keys: they go first.
    parallel_tasks(threads, shape_.batch * shape_.heads * blocks, [&](std::int64_t task, int thread) {
      const std::int64_t block = blocks - 1 - task % blocks;
      const std::int64_t head = task / blocks % shape_.heads;
      const std::int64_t batch = task / blocks / shape_.heads;
      const std::int64_t kv_head = head / (shape_.heads / shape_.kv_heads);
      Workspace own(scratch_begin + thread * scratch_bytes);
      const ForwardScratch<T> scratch(own, shape_);
      query_block(batch, head, block * kQueries, head_begin(q, shape_.query_strides, batch, head),
                  head_begin(k, shape_.key_strides, batch, kv_head),
                  head_begin(v, shape_.value_strides, batch, kv_head),
                  lse + (batch * shape_.heads + head) * shape_.sequence, scratch);
      write_output(batch, head, block * kQueries, o, scratch);
    });
  }

 private:
  void query_block(std::int64_t batch, std::int64_t head, std::int64_t query, const T* q, const T* k, const T* v,
                   float* lse, const ForwardScratch<T>& scratch) const {
    const std::int64_t query_count = smaller(kQueries, shape_.sequence - query);
    const std::size_t block_bytes = static_cast<std::size_t>(shape_.head_dim * kQueries) * sizeof(float);
    if (query_count < kQueries) __builtin_memset(scratch.query, 0, block_bytes);
    const std::int64_t dim = shape_.head_dim;
    const std::int64_t query_stride = shape_.query_strides.sequence;
    const auto rows = rows_in_f32(query_count, dim, q + query * query_stride, query_stride, scratch.query_rows);
    transpose(query_count, dim, rows.data, rows.stride, scratch.query, kQueries, shape_.scale);
    __builtin_memset(scratch.output, 0, block_bytes);
    Running running;
    for (int i = 0; i < kQueryVectors; ++i) running.maximum[i] = broadcast(-kInfinity), running.sum[i] = Float{};
    const TileDropout dropout(shape_, batch, head, queries_, query, keys_);
    for (std::int64_t key = 0; key < shape_.kv_sequence; key += kKeys) {
      const TileMask mask = tile_mask(shape_, queries_, query, keys_, key);
      if (mask == TileMask::all) continue;
      const std::int64_t key_count = smaller(kKeys, shape_.kv_sequence - key);
      const std::int64_t key_stride = shape_.key_strides.sequence;
      const std::int64_t value_stride = shape_.value_strides.sequence;
      const auto keys = rows_in_f32(key_count, dim, k + key * key_stride, key_stride, scratch.key_rows);
      tile_product(key_count, kQueryVectors, dim, {keys.data, keys.stride, 1}, {scratch.query, kQueries},
                   {scratch.scores, kQueries}, false);
      if (mask == TileMask::some) mask_scores(queries_, query, keys_, key, key_count, -kInfinity, scratch.scores);
      softmax_tile(key_count, shape_.head_dim, scratch.scores, scratch.output, running);
      if (scratch.factors != nullptr) {
        dropout.fill(key, key_count, scratch.factors);
        map_range(0, key_count * kQueries, scratch.scores, scratch.factors, scratch.scores,
                  [](Float a, Float b) { return a * b; });
      }
      const auto values = rows_in_f32(key_count, dim, v + key * value_stride, value_stride, scratch.value_rows);
      tile_product(dim, kQueryVectors, key_count, {values.data, 1, values.stride}, {scratch.scores, kQueries},
                   {scratch.output, kQueries}, true);
    }
    finish(query_count, running, scratch.output, lse + query);
  }

  void write_output(std::int64_t batch, std::int64_t head, std::int64_t query, void* o,
                    const ForwardScratch<T>& scratch) const {
    const std::int64_t stride = shape_.output_strides.sequence;
    with_result<T>(shape_, o, [&](auto* output) {
      write_rows(smaller(kQueries, shape_.sequence - query), shape_.head_dim, scratch.output, 1.0F,
                 head_begin(output, shape_.output_strides, batch, head) + query * stride, stride, scratch.query_rows);
    });
  }

  void finish(std::int64_t query_count, const Running& running, float* output, float* lse) const {
    for (int v = 0; v < kQueryVectors; ++v) {
      const Float inverse = select(running.sum[v] == Float{}, Float{}, 1.0F / running.sum[v]);
      for (std::int64_t d = 0; d < shape_.head_dim; ++d) {
        float* value = output + d * kQueries + v * kLanes;
        store(value, load(value) * inverse);
      }
      for (std::int64_t lane = 0; lane < kLanes && v * kLanes + lane < query_count; ++lane) {
        const float sum = running.sum[v][lane];
        lse[v * kLanes + lane] = sum == 0.0F ? -kInfinity : running.maximum[v][lane] + __builtin_logf(sum);
      }
    }
  }

  const AttentionShape& shape_;
  Positions queries_;
  Positions keys_;
};

template <class T>
std::int64_t forward_workspace_bytes(const AttentionShape& shape, int threads) {
  Workspace shared(nullptr);
  const Forward<T> forward(shape, shared);
  Workspace own(nullptr);
  static_cast<void>(ForwardScratch<T>(own, shape));
  return shared.used() + own.used() * threads;
}

template <class T>
void forward(const AttentionShape& shape, const T* q, const T* k, const T* v, void* o, float* lse, void* workspace,
             int threads) {
  Workspace pieces(workspace);
  Forward<T>(shape, pieces).run(q, k, v, o, lse, pieces, threads);
}

#if defined(__AMX_BF16__)
constexpr AttentionKernels<BFloat16> kBf16Kernels = {matrix_attention_workspace_bytes, matrix_attention,
                                                     matrix_attention_gradient_workspace_bytes,
                                                     matrix_attention_gradient};
#endif

template <class T>
constexpr AttentionKernels<T> kKernels = {forward_workspace_bytes<T>, forward<T>, attention_gradient_workspace_bytes<T>,
                                          attention_gradient<T>};

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
