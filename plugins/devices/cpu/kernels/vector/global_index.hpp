#pragma once

#include "kernels/kernel_family.hpp"
#include "kernels/vector/vector.hpp"

namespace strata::cpu::STRATA_CPU_TARGET {
namespace {

/// The segment that contains a local index of a dim of `size`.
inline IndexSegment segment_of(const IndexMap& map, std::int64_t size, std::int64_t local) {
  for (std::int64_t i = 0; i < map.count; ++i) {
    const IndexSegment& segment = map.segments[i];
    if (local >= segment.local_begin && local < segment.local_begin + segment.length) return segment;
  }
  return {0, 0, size};
}

inline std::int64_t global_index(const IndexMap& map, std::int64_t size, std::int64_t local) {
  const IndexSegment segment = segment_of(map, size, local);
  return segment.global_begin + (local - segment.local_begin);
}

/// The local index of a global one, or -1 if it is in another shard.
inline std::int64_t local_index(const IndexMap& map, std::int64_t size, std::int64_t global) {
  if (map.count == 0) return global >= 0 && global < size ? global : -1;
  for (std::int64_t i = 0; i < map.count; ++i) {
    const IndexSegment& segment = map.segments[i];
    if (global >= segment.global_begin && global < segment.global_begin + segment.length) {
      return segment.local_begin + (global - segment.global_begin);
    }
  }
  return -1;
}

}  // namespace
}  // namespace strata::cpu::STRATA_CPU_TARGET
