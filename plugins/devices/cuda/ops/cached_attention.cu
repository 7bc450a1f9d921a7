#include <cmath>

#include "device/cuda_kernel.hpp"
#include "kernels/element_run.cuh"
#include "kernels/soft_cap.cuh"
#include "language/launch.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::cuda {

// Attention of new positions to cached keys and values. A block computes one head of one query. Its warps share the
// keys, and the lanes of a warp share the columns of a key.

inline constexpr int kCachedWarps = 4;
inline constexpr int kCachedThreads = kCachedWarps * kWarpSize;
/// Columns of a head that a lane keeps.
inline constexpr int kCachedColumns = 8;
/// The widest head.
inline constexpr int kCachedWidth = kCachedColumns * kWarpSize;
/// The operand that holds the bias, if there is one.
inline constexpr std::size_t kCachedBias = 4;

/// q and o[texts, positions, heads, head_dim], k and v[texts, positions, kv_heads, head_dim], caches[texts, capacity,
/// kv_heads, head_dim].
struct CachedAttentionShape {
  std::int64_t rows = 0;  ///< texts · positions
  int positions = 0;
  std::int64_t capacity = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  /// Positions that a query sees, its own included. 0: all up to its own.
  std::int64_t window = 0;
  /// Elements of a head of the bias, of which the middle one is that of a query's own position. 0: there is no bias.
  std::int64_t distances = 0;
  AttentionScores scores;
};

/// Copies k and v to their positions of the caches. Rows at -1 are padding. Grid: columns of a row, rows.
template <class T>
__global__ void __launch_bounds__(kCachedThreads)
    keep_rows(CachedAttentionShape shape, const std::int32_t* where, const T* k, const T* v, T* k_cache, T* v_cache) {
  const std::int64_t row = blockIdx.y;
  const std::int64_t size = std::int64_t{shape.kv_heads} * shape.head_dim;
  const std::int64_t column = std::int64_t{blockIdx.x} * kCachedThreads + threadIdx.x;
  if (where[row] < 0 || column >= size) return;
  const std::int64_t to = (row / shape.positions * shape.capacity + where[row]) * size + column;
  k_cache[to] = k[row * size + column];
  v_cache[to] = v[row * size + column];
}

/// A softmax-weighted sum of values over some keys, of which a lane has its columns.
template <class V>
struct CachedSum {
  V largest = -static_cast<V>(INFINITY);
  V sum = 0;
  V output[kCachedColumns] = {};

  /// Calls function(slot, column) for the columns of this lane.
  template <class Function>
  static __device__ __forceinline__ void each_column(int head_dim, const Function& function) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int slot = 0; slot < kCachedColumns; ++slot) {
      const int column = lane + slot * kWarpSize;
      if (column < head_dim) function(slot, column);
    }
  }

  template <class T>
  __device__ __forceinline__ void add(V score, const T* value, int head_dim) {
    const V highest = score > largest ? score : largest;
    const V kept = std::exp(largest - highest);
    const V probability = std::exp(score - highest);
    largest = highest;
    sum = sum * kept + probability;
    each_column(head_dim, [&](int slot, int column) {
      V x[1];
      load_run<1>(value + column, x);
      output[slot] = output[slot] * kept + probability * x[0];
    });
  }
};

/// bias[heads, distances]. Grid: rows, heads.
template <class T>
__global__ void __launch_bounds__(kCachedThreads)
    cached_attention_rows(CachedAttentionShape shape, const std::int32_t* where, const T* q, const T* k_cache,
                          const T* v_cache, const T* bias, T* o) {
  using V = Accumulate<T>;
  using Columns = CachedSum<V>;
  __shared__ V largest_of_warp[kCachedWarps];
  __shared__ V sum_of_warp[kCachedWarps];
  __shared__ V output_of_warp[kCachedWarps][kCachedWidth];
  const std::int64_t row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t query_at = (row * shape.heads + head) * shape.head_dim;
  const std::int64_t position = where[row];
  if (position < 0) {
    for (int column = static_cast<int>(threadIdx.x); column < shape.head_dim; column += kCachedThreads) {
      const V zero[1] = {};
      store_run<1>(o + query_at + column, zero);
    }
    return;
  }

  V query[kCachedColumns] = {};
  Columns::each_column(shape.head_dim, [&](int slot, int column) {
    V x[1];
    load_run<1>(q + query_at + column, x);
    query[slot] = x[0] * static_cast<V>(shape.scores.scale);
  });
  const std::int64_t stride = std::int64_t{shape.kv_heads} * shape.head_dim;
  const std::int64_t head_at = row / shape.positions * shape.capacity * stride +
                               std::int64_t{head / (shape.heads / shape.kv_heads)} * shape.head_dim;
  const std::int64_t before = position + 1 - shape.window;
  const std::int64_t first = shape.window > 0 && before > 0 ? before : 0;
  const V cap = static_cast<V>(shape.scores.cap);
  Columns own;
  for (std::int64_t key = first + warp; key <= position; key += kCachedWarps) {
    V product = 0;
    Columns::each_column(shape.head_dim, [&](int slot, int column) {
      V x[1];
      load_run<1>(k_cache + head_at + key * stride + column, x);
      product += query[slot] * x[0];
    });
    V score = warp_sum(product);
    if (cap != 0) score = soft_cap(score, cap);
    if (shape.distances != 0) {
      V added[1];
      load_run<1>(bias + head * shape.distances + shape.distances / 2 + key - position, added);
      score += added[0];
    }
    own.add(score, v_cache + head_at + key * stride, shape.head_dim);
  }

  if (threadIdx.x % kWarpSize == 0) {
    largest_of_warp[warp] = own.largest;
    sum_of_warp[warp] = own.sum;
  }
  Columns::each_column(shape.head_dim, [&](int slot, int column) { output_of_warp[warp][column] = own.output[slot]; });
  __syncthreads();
  V largest = largest_of_warp[0];  // the first warp has a key
  for (int each = 1; each < kCachedWarps; ++each) {
    if (largest_of_warp[each] > largest) largest = largest_of_warp[each];
  }
  for (int column = static_cast<int>(threadIdx.x); column < shape.head_dim; column += kCachedThreads) {
    V sum = 0;
    V output[1] = {};
    for (int each = 0; each < kCachedWarps; ++each) {
      const V factor = std::exp(largest_of_warp[each] - largest);
      sum += factor * sum_of_warp[each];
      output[0] += factor * output_of_warp[each][column];
    }
    output[0] /= sum;
    store_run<1>(o + query_at + column, output);
  }
}

namespace {

CachedAttentionShape cached_shape(const OpInstance& op) {
  CachedAttentionShape shape;
  const std::int64_t texts = op.operands[0].shape[0];
  shape.positions = static_cast<int>(op.operands[0].shape[1]);
  shape.rows = texts * shape.positions;
  shape.capacity = op.results[1].shape[1];
  shape.head_dim = static_cast<int>(columns(op.operands[0]));
  shape.heads = static_cast<int>(elements(op.operands[0]) / (shape.rows * shape.head_dim));
  shape.kv_heads = static_cast<int>(elements(op.operands[1]) / (shape.rows * shape.head_dim));
  shape.window = op.attributes.integer("window");
  if (op.operands.size() > kCachedBias) shape.distances = columns(op.operands[kCachedBias]);
  shape.scores = attention_scores(op);
  return shape;
}

std::optional<std::string> unsupported_cached_attention(const OpInstance& op) {
  constexpr std::int64_t kMostRows = 65535;
  if (columns(op.operands[0]) > kCachedWidth) {
    return "head_dim is " + std::to_string(columns(op.operands[0])) + "; accepted: at most " +
           std::to_string(kCachedWidth);
  }
  const std::int64_t rows = op.operands[0].shape[0] * op.operands[0].shape[1];
  if (rows <= kMostRows) return std::nullopt;
  return "computes " + std::to_string(rows) + " new positions at once; accepted: at most " + std::to_string(kMostRows);
}

constexpr auto kCachedAttention = []<class T>(const OpInstance& op) -> PreparedKernel {
  return {[shape = cached_shape(op)](const KernelArguments& arguments) {
    const auto* where = in<std::int32_t>(arguments, 3);
    const auto rows = static_cast<unsigned>(shape.rows);
    const unsigned blocks = blocks_for(std::int64_t{shape.kv_heads} * shape.head_dim, kCachedThreads);
    T* k_cache = out<T>(arguments, 1);
    T* v_cache = out<T>(arguments, 2);
    launch(keep_rows<T>, {.grid = {blocks, rows}, .block = {kCachedThreads}}, arguments.stream, shape, where,
           in<T>(arguments, 1), in<T>(arguments, 2), k_cache, v_cache);
    launch(cached_attention_rows<T>, {.grid = {rows, static_cast<unsigned>(shape.heads)}, .block = {kCachedThreads}},
           arguments.stream, shape, where, in<T>(arguments, 0), static_cast<const T*>(k_cache),
           static_cast<const T*>(v_cache), shape.distances == 0 ? nullptr : in<T>(arguments, kCachedBias),
           out<T>(arguments, 0));
  }};
};

}  // namespace

void register_cached_attention(Registration& registration) {
  for (const char* operands : {"ttti", "tttit"}) {
    add(registration, {"cached_attention", operands, "ttt", false, unsupported_cached_attention}, kCachedAttention);
  }
}

}  // namespace strata::cuda
