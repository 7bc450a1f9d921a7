#pragma once

#include <cstdint>

#include "language/dialect.hpp"

/// \file
/// Global indices of a rank's shards as plain data, which kernels take by value.

namespace strata::cuda {

/// A run of neighbouring local indices that are also neighbours in the global dim.
struct IndexRun {
  std::int64_t local_begin = 0;
  std::int64_t global_begin = 0;
  std::int64_t length = 0;
};

/// The strata::IndexMap of one dim, for kernels. Runs are in ascending local order. \see dim_index_map
struct DimIndexMap {
  static constexpr int kMaxRuns = 8;
  std::int64_t local_size = 0;
  std::int64_t global_size = 0;
  /// Added to every global index, to skip earlier micro-batches.
  std::int64_t offset = 0;
  int count = 0;
  IndexRun runs[kMaxRuns] = {};

  /// The run that contains a local index.
  [[nodiscard]] __host__ __device__ const IndexRun& run_of(std::int64_t local) const {
    int i = 0;
    while (i + 1 < count && local >= runs[i + 1].local_begin) ++i;
    return runs[i];
  }
  [[nodiscard]] __host__ __device__ std::int64_t global_index(std::int64_t local) const {
    const IndexRun& run = run_of(local);
    return run.global_begin + (local - run.local_begin) + offset;
  }
  /// The local index of a global one (without the offset), or -1 if it is not in this shard.
  [[nodiscard]] __host__ __device__ std::int64_t local_index(std::int64_t global) const {
    for (int i = 0; i < count; ++i) {
      const std::int64_t distance = global - runs[i].global_begin;
      if (distance >= 0 && distance < runs[i].length) return runs[i].local_begin + distance;
    }
    return -1;
  }
};

}  // namespace strata::cuda
