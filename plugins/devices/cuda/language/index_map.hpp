#pragma once

#include <cstdint>

#include "language/dialect.hpp"

/// \file
/// Global indices of a rank's shards, for kernels: plain data that is passed by value.

namespace strata::cuda {

/// A run of neighbouring local indices that are neighbours in the global dim too.
struct IndexRun {
  std::int64_t local_begin = 0;
  std::int64_t global_begin = 0;
  std::int64_t length = 0;
};

/// One dim of a tensor: strata::IndexMap for kernels. Runs are in ascending local order. \see dim_index_map
struct DimIndexMap {
  static constexpr int kMaxRuns = 8;
  std::int64_t local_size = 0;
  std::int64_t global_size = 0;
  /// Added to every global index: micro-batches before this one.
  std::int64_t offset = 0;
  int count = 0;
  IndexRun runs[kMaxRuns] = {};

  /// The run that holds a local index.
  [[nodiscard]] __host__ __device__ const IndexRun& run_of(std::int64_t local) const {
    int i = 0;
    while (i + 1 < count && local >= runs[i + 1].local_begin) ++i;
    return runs[i];
  }
  [[nodiscard]] __host__ __device__ std::int64_t global_index(std::int64_t local) const {
    const IndexRun& run = run_of(local);
    return run.global_begin + (local - run.local_begin) + offset;
  }
  /// The local index of a global one (without the offset), or -1 where this shard does not have it.
  [[nodiscard]] __host__ __device__ std::int64_t local_index(std::int64_t global) const {
    for (int i = 0; i < count; ++i) {
      const std::int64_t distance = global - runs[i].global_begin;
      if (distance >= 0 && distance < runs[i].length) return runs[i].local_begin + distance;
    }
    return -1;
  }
};

}  // namespace strata::cuda
