#pragma once

#include <cstdint>

namespace strata::cpu {

/// A run of indices that is contiguous in the shard and in the global dim.
struct IndexSegment {
  std::int64_t local_begin = 0;
  std::int64_t global_begin = 0;
  std::int64_t length = 0;
};

/// Maps local to global indices of one dim, by segments in ascending local order. Without segments the dim is whole.
struct IndexMap {
  const IndexSegment* segments = nullptr;
  std::int64_t count = 0;
};

/// One dim of a tensor that may be sharded.
struct IndexedDim {
  std::int64_t local_size = 0;
  std::int64_t global_size = 0;
  IndexMap map;
};

}  // namespace strata::cpu
