#pragma once

#include <cstdint>

#include "kernels/index_map.hpp"

namespace strata::cpu {

/// Rows of table[rows, columns] by global row number; the rows may be sharded. The table's gradient is f32.
template <class T>
struct EmbeddingKernels {
  /// y[count, columns] = table[ids[count]]; 0 where the id is below zero or in another shard
  void (*forward)(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices,
                  const T* table, const std::int32_t* ids, T* y, int threads);
  /// dtable[ids[i]] += dy[i] in ascending i, so that the result is the same for any thread count
  void (*gradient)(std::int64_t count, std::int64_t rows, std::int64_t columns, const IndexMap& row_indices,
                   const T* dy, const std::int32_t* ids, float* dtable, bool accumulate, int threads);
};

}  // namespace strata::cpu
