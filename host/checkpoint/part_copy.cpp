#include "checkpoint/part_copy.hpp"

#include <algorithm>
#include <cstring>

namespace strata::host {
namespace {

/// Number of elements of a block below one index of each dim. The first entry is the whole block's.
std::vector<std::int64_t> pitches(const std::vector<IndexMap>& dims) {
  std::vector<std::int64_t> result(dims.size() + 1, 1);
  for (std::size_t dim = dims.size(); dim-- > 0;) result[dim] = result[dim + 1] * dims[dim].local_size();
  return result;
}

}  // namespace

PartCopy::PartCopy(const TensorPart& source, const TensorPart& destination, std::size_t element_bytes)
    : source_begin_(source.begin),
      source_end_(source.end),
      destination_begin_(destination.begin),
      destination_end_(destination.end),
      element_bytes_(static_cast<std::int64_t>(element_bytes)),
      source_pitch_(pitches(source.dims)),
      destination_pitch_(pitches(destination.dims)) {
  for (std::size_t dim = 0; dim < source.dims.size(); ++dim) {
    overlaps_.push_back(overlaps(source.dims[dim], destination.dims[dim]));
  }
}

std::int64_t PartCopy::run(const std::byte* source, std::byte* destination) const {
  return copy_dims(0, 0, 0, source, destination);
}

bool PartCopy::has_elements() const {
  if (std::any_of(overlaps_.begin(), overlaps_.end(), [](const auto& each) { return each.empty(); })) return false;
  return copy_dims(0, 0, 0, nullptr, nullptr) > 0;
}

std::vector<PartCopy::Overlap> PartCopy::overlaps(const IndexMap& source, const IndexMap& destination) {
  std::vector<Overlap> result;
  for (const IndexSegment& from : source.segments) {
    for (const IndexSegment& to : destination.segments) {
      const std::int64_t begin = std::max(from.global_begin, to.global_begin);
      const std::int64_t end = std::min(from.global_begin + from.length, to.global_begin + to.length);
      if (begin >= end) continue;
      result.push_back(
          {from.local_begin + begin - from.global_begin, to.local_begin + begin - to.global_begin, end - begin});
    }
  }
  return result;
}

std::int64_t PartCopy::copy_dims(std::size_t dim, std::int64_t from, std::int64_t to, const std::byte* source,
                                 std::byte* destination) const {
  const bool outside = from >= source_end_ || from + source_pitch_[dim] <= source_begin_ || to >= destination_end_ ||
                       to + destination_pitch_[dim] <= destination_begin_;
  if (outside) return 0;
  if (dim == overlaps_.size()) return copy_run(from, to, 1, source, destination);
  const std::int64_t from_pitch = source_pitch_[dim + 1];
  const std::int64_t to_pitch = destination_pitch_[dim + 1];
  std::int64_t copied = 0;
  for (const Overlap& each : overlaps_[dim]) {
    if (destination == nullptr && copied > 0) return copied;
    const std::int64_t first_from = from + each.source * from_pitch;
    const std::int64_t first_to = to + each.destination * to_pitch;
    if (dim + 1 == overlaps_.size()) {
      copied += copy_run(first_from, first_to, each.length, source, destination);
      continue;
    }
    for (std::int64_t i = 0; i < each.length && (destination != nullptr || copied == 0); ++i) {
      copied += copy_dims(dim + 1, first_from + i * from_pitch, first_to + i * to_pitch, source, destination);
    }
  }
  return copied;
}

std::int64_t PartCopy::copy_run(std::int64_t from, std::int64_t to, std::int64_t length, const std::byte* source,
                                std::byte* destination) const {
  const std::int64_t first = std::max({std::int64_t{0}, source_begin_ - from, destination_begin_ - to});
  const std::int64_t last = std::min({length, source_end_ - from, destination_end_ - to});
  if (first >= last || destination == nullptr) return std::max<std::int64_t>(0, last - first);
  std::memcpy(destination + (to + first - destination_begin_) * element_bytes_,
              source + (from + first - source_begin_) * element_bytes_,
              static_cast<std::size_t>((last - first) * element_bytes_));
  return last - first;
}

}  // namespace strata::host
