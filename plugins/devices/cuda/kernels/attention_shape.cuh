#pragma once

#include "language/index_map.hpp"
#include "language/language.hpp"

namespace strata::cuda {

inline constexpr double kLog2E = 1.4426950408889634;

/// A number in both types that kernels compute in. Each kernel reads its own from constant memory, so that arithmetic
/// needs no register for it.
struct Factor {
  constexpr Factor(double value) : wide(value), single(static_cast<float>(value)) {}

  template <class Real>
  [[nodiscard]] __device__ __forceinline__ Real as() const {
    if constexpr (std::is_same_v<Real, double>) {
      return wide;
    } else {
      return single;
    }
  }

  double wide;
  float single;
};

/// Dropout of probabilities. The mask depends only on global (sample, head, query, key).
struct AttentionDropout {
  /// Random words below the threshold are dropped. 0: no dropout.
  std::uint32_t threshold = 0;
  /// Factor of kept probabilities.
  Factor kept_factor = 1.0;
  RandomStream stream;
  DimIndexMap samples;
  DimIndexMap heads;
};

/// Shapes of attention: q, o [batch, queries, heads, width]; k, v [batch, keys, kv_heads, width]; log-sum-exp [batch,
/// heads, queries]. Query head h reads kv head h / (heads / kv_heads). A gradient has the shape of its tensor.
struct AttentionShape {
  int batch = 0;
  int queries = 0;
  int keys = 0;
  int heads = 0;
  int kv_heads = 0;
  int width = 0;
  /// If true, a query sees the keys whose global position is not after its own.
  bool causal = false;
  /// With `causal`: a query sees itself and the `reach` - 1 keys before it.
  std::int64_t reach = std::int64_t{1} << 31;
  /// Numbers of documents [batch, queries] and [batch, keys]: a query sees the keys with its own number. Null: it sees
  /// the keys of all documents.
  const std::int32_t* query_documents = nullptr;
  const std::int32_t* key_documents = nullptr;
  /// Bias of the scores [heads, distance] in the type of the operands, with an element for each distance from
  /// 1 - queries to keys - 1 of a key from its query. Null: none.
  const void* bias = nullptr;
  /// If true, the output or the gradients are f32 for every operand type.
  bool f32_results = false;
  /// True if all rows of all operands and results start at multiples of 16 bytes.
  bool has_aligned_rows = false;
  Factor scale = 1.0;
  /// Products of queries and keys are bent to stay within ± cap. 0: they are not.
  Factor product_cap = 0.0;
  /// Scale of scores that are exponents of two.
  Factor binary_scale = 1.0;
  Factor inverse_scale = 1.0;
  DimIndexMap query_positions;
  DimIndexMap key_positions;
  AttentionDropout dropout;

  [[nodiscard]] __host__ __device__ int group() const { return heads / kv_heads; }
  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return std::int64_t{batch} * heads * queries; }
  /// Offset of the statistics of a head's first row.
  [[nodiscard]] __device__ __forceinline__ std::int64_t statistics(int sample, int head) const {
    return (std::int64_t{sample} * heads + head) * queries;
  }
};

/// The rows of one head.
template <class T>
struct HeadRows {
  T* first;
  std::int64_t stride;
  int count;
  int width;
  bool is_aligned;

  [[nodiscard]] __device__ __forceinline__ T* row(int index) const { return first + index * stride; }
};

template <class T>
__device__ __forceinline__ HeadRows<T> query_rows(const AttentionShape& shape, T* all, int sample, int head) {
  const std::int64_t stride = std::int64_t{shape.heads} * shape.width;
  return {all + std::int64_t{sample} * shape.queries * stride + std::int64_t{head} * shape.width, stride, shape.queries,
          shape.width, shape.has_aligned_rows};
}

template <class T>
__device__ __forceinline__ HeadRows<T> key_rows(const AttentionShape& shape, T* all, int sample, int kv_head) {
  const std::int64_t stride = std::int64_t{shape.kv_heads} * shape.width;
  return {all + std::int64_t{sample} * shape.keys * stride + std::int64_t{kv_head} * shape.width, stride, shape.keys,
          shape.width, shape.has_aligned_rows};
}

}  // namespace strata::cuda
