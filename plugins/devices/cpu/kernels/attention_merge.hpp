#pragma once

#include <cstdint>

namespace strata::cpu {

/// o[batch, sequence, heads, head_dim] and its log-sum-exp l[batch, heads, sequence].
struct AttentionOutputShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

struct AttentionMergeKernels {
  /// Attention to two disjoint sets of keys as attention to both: l = log(exp(l1) + exp(l2)), o = exp(l1 - l) o1 +
  /// exp(l2 - l) o2. A query that sees none of either (l1 and l2 are -infinity) has o = 0. o may be o1, and l may be
  /// l1.
  void (*merge)(const AttentionOutputShape& shape, const float* o1, const float* l1, const float* o2, const float* l2,
                float* o, float* l, int threads);
};

}  // namespace strata::cpu
