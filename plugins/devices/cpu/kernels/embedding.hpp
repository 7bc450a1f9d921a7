#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/index_map.hpp"
#include "kernels/kernel_family.hpp"

namespace strata::cpu {

/// Look-up in table[rows, columns] by global row number. The rows may be sharded. The table's gradient is f32.
template <class T>
struct EmbeddingKernels {
  /// y[count, columns] = table[ids[count]]. Rows are 0 if the id is below zero or in another shard.
  void (*forward)(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices,
                  const T* table, const std::int32_t* ids, T* y, int threads);
  /// dtable[ids[i]] += dy[i] in ascending i, so the result does not depend on the number of threads.
  void (*gradient)(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices,
                   const T* dy, const std::int32_t* ids, float* dtable, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<EmbeddingKernels>, embedding_kernels);

}  // namespace strata::cpu
