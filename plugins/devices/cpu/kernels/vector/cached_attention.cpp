#include "kernels/attention.hpp"
#include "kernels/vector/parallel.hpp"
#include "kernels/vector/soft_cap.hpp"
#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

template <class T>
void keep(const CachedAttentionShape& shape, const std::int32_t* where, const T* x, T* cache, int threads) {
  const std::int64_t size = shape.kv_heads * shape.head_dim;
  parallel_rows(threads, shape.texts * shape.positions, size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (where[row] < 0) continue;
      T* to = cache + (row / shape.positions * shape.capacity + where[row]) * size;
      __builtin_memcpy(to, x + row * size, static_cast<std::size_t>(size) * sizeof(T));
    }
  });
}

/// Scratch of one thread: the query heads that share one head of keys.
struct GroupScratch {
  GroupScratch(const CachedAttentionShape& shape, void* workspace, int thread)
      : group(shape.heads / shape.kv_heads),
        query(static_cast<float*>(workspace) + thread * floats(shape)),
        output(query + group * shape.head_dim),
        scores(output + group * shape.head_dim) {}

  static std::int64_t floats(const CachedAttentionShape& shape) {
    return round_up(shape.heads / shape.kv_heads * (2 * shape.head_dim + shape.capacity), 16);
  }

  std::int64_t group;
  float* query;   // [group][head_dim], scaled
  float* output;  // [group][head_dim]
  float* scores;  // [group][key], then probabilities
};

template <class T>
float dot_row(std::int64_t size, const float* x, const T* y) {
  Float sum{};
  each_vector(0, size,
              [&](std::int64_t i, auto lanes) { sum = multiply_add(load(x + i, lanes), load(y + i, lanes), sum); });
  return horizontal_sum(sum);
}

/// y += factor · x
template <class T>
void add_row(std::int64_t size, float factor, const T* x, float* y) {
  map_range(0, size, x, y, y, [factor](Float a, Float b) { return multiply_add(a, factor, b); });
}

/// Replaces scores by exp(score - largest). \return the sum.
float exponentials(std::int64_t count, float* scores) {
  Float highest = broadcast(-kInfinity);
  each_vector(0, count, [&](std::int64_t i, auto lanes) {
    highest = maximum(highest, with_unused(load(scores + i, lanes), -kInfinity, lanes));
  });
  const float largest = horizontal_maximum(highest);
  map_range(0, count, scores, scores, [largest](Float x) { return exponential(x - broadcast(largest)); });
  Float sums{};
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) sums += load(scores + i);
  return horizontal_sum(load(scores + whole, FirstLanes{count - whole})) + horizontal_sum(sums);
}

/// Attention of the query heads of one kv head at one position. `bias`: that of these heads.
template <class T>
void attend_group(const CachedAttentionShape& shape, std::int64_t position, const T* q, const T* keys, const T* values,
                  const T* bias, T* o, const GroupScratch& scratch) {
  const std::int64_t dim = shape.head_dim;
  const std::int64_t stride = shape.kv_heads * dim;
  const std::int64_t first = shape.window > 0 ? larger(0, position - shape.window + 1) : 0;
  const std::int64_t count = position - first + 1;
  map_range(0, scratch.group * dim, q, scratch.query, [&](Float x) { return x * shape.scale; });
  for (std::int64_t k = 0; k < count; ++k) {
    const T* key = keys + (first + k) * stride;
    for (std::int64_t g = 0; g < scratch.group; ++g) {
      scratch.scores[g * shape.capacity + k] = dot_row(dim, scratch.query + g * dim, key);
    }
  }
  for (std::int64_t i = 0; i < scratch.group * dim; ++i) scratch.output[i] = 0.0F;
  for (std::int64_t g = 0; g < scratch.group; ++g) {
    float* probabilities = scratch.scores + g * shape.capacity;
    if (shape.cap != 0.0F) {
      map_range(0, count, probabilities, probabilities, [&](Float score) { return soft_cap(score, shape.cap); });
    }
    if (shape.distances != 0) {
      const T* row = bias + g * shape.distances + shape.distances / 2 + first - position;
      map_range(0, count, probabilities, row, probabilities, [](Float score, Float added) { return score + added; });
    }
    const float inverse = 1.0F / exponentials(count, probabilities);
    map_range(0, count, probabilities, probabilities, [inverse](Float x) { return x * inverse; });
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const T* value = values + (first + k) * stride;
    for (std::int64_t g = 0; g < scratch.group; ++g) {
      add_row(dim, scratch.scores[g * shape.capacity + k], value, scratch.output + g * dim);
    }
  }
  map_range(0, scratch.group * dim, scratch.output, o, [](Float x) { return x; });
}

std::int64_t group_workspace_bytes(const CachedAttentionShape& shape, int threads) {
  return threads * GroupScratch::floats(shape) * static_cast<std::int64_t>(sizeof(float));
}

template <class T>
void attend(const CachedAttentionShape& shape, const std::int32_t* where, const T* q, const T* k_cache,
            const T* v_cache, const T* bias, T* o, void* workspace, int threads) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  const std::int64_t group_size = group * shape.head_dim;
  const std::int64_t text_size = shape.capacity * shape.kv_heads * shape.head_dim;
  parallel_tasks(threads, shape.texts * shape.positions * shape.kv_heads, [&](std::int64_t task, int thread) {
    const std::int64_t row = task / shape.kv_heads;
    if (where[row] < 0) {
      return map_range(0, group_size, q + task * group_size, o + task * group_size, [](Float) { return Float{}; });
    }
    const std::int64_t kv_head = task % shape.kv_heads;
    const std::int64_t head = row / shape.positions * text_size + kv_head * shape.head_dim;
    attend_group(shape, where[row], q + task * group_size, k_cache + head, v_cache + head,
                 bias + kv_head * group * shape.distances, o + task * group_size,
                 GroupScratch(shape, workspace, thread));
  });
}

template <class T>
constexpr CachedAttentionKernels<T> kKernels = {keep<T>, group_workspace_bytes, attend<T>};

}  // namespace

const ByElement<CachedAttentionKernels> cached_attention_kernels = {kKernels<float>, kKernels<BFloat16>,
                                                                    kKernels<Float16>};

}  // namespace strata::cpu::STRATA_CPU_TARGET
