#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

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
};

/// Attention of new positions to the keys and values that are cached.
template <class T>
struct CachedAttentionKernels {
  /// Copies row (text, i) of x[texts, positions, row] to row (text, where[text, i]) of the cache. Skips rows at -1.
  void (*keep)(const CachedAttentionShape& shape, const std::int32_t* where, const T* x, T* cache, int threads);
  std::int64_t (*workspace_bytes)(const CachedAttentionShape& shape, int threads);
  /// Writes o. Its rows at -1 are 0. `workspace` has workspace_bytes() bytes.
  void (*attend)(const CachedAttentionShape& shape, const std::int32_t* where, const T* q, const T* k_cache,
                 const T* v_cache, T* o, void* workspace, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<CachedAttentionKernels>, cached_attention_kernels);

}  // namespace strata::cpu
