#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/index_map.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// The pieces of cross-entropy over logits x[rows, columns], whose columns (the vocabulary) may be sharded. A target
/// below zero is ignored: it adds nothing to the loss and has gradient 0. Values per row are f32.
template <class T>
struct CrossEntropyKernels {
  /// m[rows] = maximum of each row
  void (*row_max)(std::int64_t rows, std::int64_t columns, const T* x, float* m, int threads);
  /// s[rows] = sum over the row of exp(x - m)
  void (*sum_exponentials)(std::int64_t rows, std::int64_t columns, const T* x, const float* m, float* s, int threads);
  /// picked[rows] = logit of the row's target; 0 if the target is ignored or in another shard
  void (*pick)(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const T* x,
               const std::int32_t* targets, float* picked, int threads);
  /// dx[rows, columns] = exp(x - lse) - (column is the target). dx may be x.
  void (*gradient)(std::int64_t rows, std::int64_t columns, const IndexMap& vocabulary, const T* x, const float* lse,
                   const std::int32_t* targets, T* dx, int threads);
};

/// The pieces of cross-entropy on values per row, which are f32.
struct RowLossKernels {
  /// lse[rows] = m + log(s)
  void (*log_sum_exponential)(std::int64_t rows, const float* m, const float* s, float* lse, int threads);
  /// Sum over targets >= 0 of lse - picked
  double (*loss_sum)(std::int64_t rows, const float* lse, const float* picked, const std::int32_t* targets);
  /// Number of targets >= 0
  std::int64_t (*count_targets)(std::int64_t rows, const std::int32_t* targets);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<CrossEntropyKernels>, cross_entropy_kernels);
STRATA_CPU_KERNEL_FAMILY(RowLossKernels, row_loss_kernels);

}  // namespace strata::cpu
