#include <algorithm>

#include "strata/error.hpp"
#include "strata/layout.hpp"

namespace strata {

std::int64_t IndexMap::local_size() const {
  return segments.empty() ? 0 : segments.back().local_begin + segments.back().length;
}

std::int64_t IndexMap::global_index(std::int64_t local) const {
  const auto after =
      std::upper_bound(segments.begin(), segments.end(), local,
                       [](std::int64_t value, const IndexSegment& each) { return value < each.local_begin; });
  if (local < 0 || after == segments.begin() || local >= std::prev(after)->local_begin + std::prev(after)->length) {
    throw VerificationError("index " + std::to_string(local) + " is outside of a shard of " +
                            std::to_string(local_size()));
  }
  const IndexSegment& segment = *std::prev(after);
  return segment.global_begin + (local - segment.local_begin);
}

bool IndexMap::is_whole() const { return *this == whole(global_size); }

IndexMap IndexMap::whole(std::int64_t size) { return {size, {{0, 0, size}}}; }

std::vector<IndexSegment> split_dimension(std::int64_t size, int count, int index, Distribution distribution) {
  if (index < 0 || index >= count)
    throw VerificationError("piece " + std::to_string(index) + " of " + std::to_string(count));
  const std::int64_t pieces = distribution == Distribution::zigzag ? 2 * std::int64_t{count} : count;
  if (size % pieces != 0) {
    throw VerificationError("a dimension of " + std::to_string(size) + " cannot be dealt in " + std::to_string(pieces) +
                            " pieces");
  }
  const std::int64_t length = size / pieces;
  if (distribution == Distribution::block || count == 1) return {{0, index * length, size / count}};
  return {{0, index * length, length}, {length, (pieces - 1 - index) * length, length}};
}

IndexMap IndexMap::piece(int count, int index, Distribution distribution) const {
  IndexMap result{global_size, {}};
  std::int64_t filled = 0;
  for (const IndexSegment& run : split_dimension(local_size(), count, index, distribution)) {
    // A run of the piece may span several segments of this map.
    for (const IndexSegment& segment : segments) {
      const std::int64_t begin = std::max(run.global_begin, segment.local_begin);
      const std::int64_t end = std::min(run.global_begin + run.length, segment.local_begin + segment.length);
      if (begin >= end) continue;
      const std::int64_t global = segment.global_begin + (begin - segment.local_begin);
      const bool continues =
          !result.segments.empty() && result.segments.back().global_begin + result.segments.back().length == global;
      if (continues) {
        result.segments.back().length += end - begin;
      } else {
        result.segments.push_back({filled, global, end - begin});
      }
      filled += end - begin;
    }
  }
  return result;
}

}  // namespace strata
