#pragma once

#include <cstdint>

namespace strata::cpu {

/// A run of neighbouring local indices that are neighbours in the global dim too.
struct IndexSegment {
  std::int64_t local_begin = 0;
  std::int64_t global_begin = 0;
  std::int64_t length = 0;
};

/// Local to global index of one dim: segments in ascending local order. No segments: the dim is whole (identity).
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
