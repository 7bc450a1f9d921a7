#pragma once

#include <cstdint>

#include "kernels/kernel_family.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {

/// The shape of o[batch, sequence, heads, head_dim] and of its log-sum-exp l[batch, heads, sequence].
struct AttentionOutputShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

struct AttentionMergeKernels {
  /// Merges attention over two disjoint sets of keys: l = log(exp(l1) + exp(l2)), o = exp(l1 - l) o1 + exp(l2 - l) o2.
  /// For a query that sees no key of either set (l1 and l2 are -infinity), o = 0. o may be o1, and l may be l1.
  void (*merge)(const AttentionOutputShape& shape, const float* o1, const float* l1, const float* o2, const float* l2,
                float* o, float* l, int threads);
};

STRATA_CPU_KERNEL_FAMILY(AttentionMergeKernels, attention_merge_kernels);

/// Shapes: q and o[texts, positions, heads, head_dim], k and v[texts, positions, kv_heads, head_dim], caches[texts,
/// capacity, kv_heads, head_dim]. Query head h reads kv head h / (heads / kv_heads).
struct CachedAttentionShape {
  std::int64_t texts = 0;
  std::int64_t positions = 0;
  std::int64_t capacity = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  /// Positions that a query sees, its own included. 0: all up to its own.
  std::int64_t window = 0;
  float scale = 1.0F;
  float cap = 0.0F;  ///< scores are bent to stay within ± cap; 0: they are not
  /// Elements of a head of the bias, of which the middle one is that of a query's own position. 0: there is no bias.
  std::int64_t distances = 0;
};

/// Attention of new positions to the keys and values that are cached.
template <class T>
struct CachedAttentionKernels {
  /// Copies row (text, i) of x[texts, positions, row] to row (text, where[text, i]) of the cache. Skips rows at -1.
  void (*keep)(const CachedAttentionShape& shape, const std::int32_t* where, const T* x, T* cache, int threads);
  std::int64_t (*workspace_bytes)(const CachedAttentionShape& shape, int threads);
  /// Writes o. Its rows at -1 are 0. `bias`[heads, distances]. `workspace` has workspace_bytes() bytes.
  void (*attend)(const CachedAttentionShape& shape, const std::int32_t* where, const T* q, const T* k_cache,
                 const T* v_cache, const T* bias, T* o, void* workspace, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<CachedAttentionKernels>, cached_attention_kernels);

/// Shapes: q[batch, sequence, heads, head_dim], k and v[batch, kv_sequence, kv_heads, head_dim]. Query head h reads kv
/// head h / (heads / kv_heads).
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t kv_sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  float scale = 1.0F;
  float cap = 0.0F;    ///< scores are bent to stay within ± cap; 0: they are not
  bool causal = true;  ///< a query sees the keys whose global position is not after its own
  /// With `causal`: a query sees itself and the `window` - 1 keys before it. 0: all keys before it.
  std::int64_t window = 0;
  IndexMap query_positions;
  IndexMap key_positions;

  /// If true, a query sees the keys of its own document only.
  bool has_documents = false;
  const std::int32_t* query_documents = nullptr;  ///< [batch, sequence]
  const std::int32_t* key_documents = nullptr;    ///< [batch, kv_sequence]

  /// Bias of the scores [heads, distance], by distances -(global_sequence - 1) … global_kv_sequence - 1 of a key from
  /// its query, and its gradient.
  bool has_bias = false;
  bool has_bias_gradient = false;
  Element element = Element::f32;  ///< type of the operands
  const void* bias = nullptr;
  void* d_bias = nullptr;

  DropoutSettings dropout;  ///< dropout of the probabilities [sample, head, query, key]
  IndexMap samples;
  IndexMap head_indices;
  std::int64_t global_heads = 0;
  std::int64_t global_sequence = 0;
  std::int64_t global_kv_sequence = 0;

  /// True if outputs and gradients are f32 whatever the type of the operands.
  bool f32_results = false;
};

/// Tiled attention with an online softmax, which never stores the score matrix (Dao et al., "FlashAttention", NeurIPS
/// 2022). `workspace` has the size that the function *_workspace_bytes returns, and is aligned to 64 bytes. The
/// log-sum-exp is f32.
template <class T>
struct AttentionKernels {
  std::int64_t (*forward_workspace_bytes)(const AttentionShape& shape, int threads);
  /// Writes o, shaped like q, and lse[batch, heads, sequence]. For a query that sees no key, o = 0 and lse = -infinity.
  void (*forward)(const AttentionShape& shape, const T* q, const T* k, const T* v, void* o, float* lse, void* workspace,
                  int threads);
  std::int64_t (*gradient_workspace_bytes)(const AttentionShape& shape, int threads);
  /// Writes dq, dk and dv. Recomputes the probabilities from lse.
  void (*gradient)(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* o, const float* lse,
                   const T* d_o, void* dq, void* dk, void* dv, void* workspace, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<AttentionKernels>, attention_kernels);

}  // namespace strata::cpu
