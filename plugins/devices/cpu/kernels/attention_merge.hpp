#pragma once

#include <cstdint>

#include "kernels/kernel_family.hpp"

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

}  // namespace strata::cpu
