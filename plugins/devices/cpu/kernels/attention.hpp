#pragma once

#include <cstdint>

#include "kernels/dropout.hpp"
#include "kernels/index_map.hpp"

namespace strata::cpu {

/// Distance, in elements, between neighbours in each dim of x[batch, sequence, head, head_dim]; head_dim is contiguous.
struct HeadStrides {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t head = 0;
};

/// Strides of a contiguous x[batch, sequence, heads, head_dim].
constexpr HeadStrides contiguous_strides(std::int64_t sequence, std::int64_t heads, std::int64_t head_dim) {
  return {sequence * heads * head_dim, heads * head_dim, head_dim};
}

/// q[batch, sequence, heads, head_dim], k and v[batch, kv_sequence, kv_heads, head_dim]; query head h reads kv head
/// h / (heads / kv_heads). Gradients have the strides of what they are the gradient of.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t kv_sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  HeadStrides query_strides;
  HeadStrides key_strides;
  HeadStrides value_strides;
  HeadStrides output_strides;
  float scale = 1.0F;
  bool causal = true;  ///< a query sees the keys whose global position is not after its own
  IndexMap query_positions;
  IndexMap key_positions;

  DropoutSettings dropout;  ///< of the probabilities [sample, head, query, key]
  IndexMap samples;
  IndexMap head_indices;
  std::int64_t global_heads = 0;
  std::int64_t global_sequence = 0;
  std::int64_t global_kv_sequence = 0;

  /// The output, or the gradients, are f32 whatever the operands are.
  bool f32_results = false;
};

/// Attention by tiles with an online softmax: the score matrix is never stored.
/// `workspace` is scratch of the stated size, aligned to 64 bytes. The log-sum-exp is f32.
template <class T>
struct AttentionKernels {
  std::int64_t (*forward_workspace_bytes)(const AttentionShape& shape, int threads);
  /// o like q, lse[batch, heads, sequence]. A query that sees no key: o = 0, lse = -infinity.
  void (*forward)(const AttentionShape& shape, const T* q, const T* k, const T* v, void* o, float* lse, void* workspace,
                  int threads);
  std::int64_t (*gradient_workspace_bytes)(const AttentionShape& shape, int threads);
  /// dq, dk, dv, from probabilities that are computed again from lse
  void (*gradient)(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* o, const float* lse,
                   const T* d_o, void* dq, void* dk, void* dv, void* workspace, int threads);
};

}  // namespace strata::cpu
