#include "checkpoint/part_cover.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace strata::host {
namespace {

using Parts = std::vector<const TensorPart*>;

/// Groups parts with equal blocks, sorted by their elements.
std::vector<Parts> by_block(const std::vector<TensorPart>& parts) {
  std::vector<Parts> groups;
  for (const TensorPart& part : parts) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Parts& group) { return group.front()->dims == part.dims; });
    if (same == groups.end()) {
      groups.push_back({&part});
    } else {
      same->push_back(&part);
    }
  }
  for (Parts& group : groups) {
    std::sort(group.begin(), group.end(), [](const TensorPart* a, const TensorPart* b) { return a->begin < b->begin; });
  }
  return groups;
}

bool meet(const IndexMap& a, const IndexMap& b) {
  return std::any_of(a.segments.begin(), a.segments.end(), [&](const IndexSegment& x) {
    return std::any_of(b.segments.begin(), b.segments.end(), [&](const IndexSegment& y) {
      return x.global_begin < y.global_begin + y.length && y.global_begin < x.global_begin + x.length;
    });
  });
}

bool meet(const std::vector<IndexMap>& a, const std::vector<IndexMap>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const IndexMap& x, const IndexMap& y) { return meet(x, y); });
}

}  // namespace

std::optional<std::string> find_cover_fault(const Shape& shape, const std::vector<TensorPart>& parts) {
  const std::vector<Parts> groups = by_block(parts);
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::int64_t end = 0;
    for (const TensorPart* part : groups[i]) {
      if (part->begin < end) {
        return "element " + std::to_string(part->begin) + " of a block is in two of them";
      }
      end = part->end;
      covered += part->elements();
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (meet(groups[i].front()->dims, groups[j].front()->dims)) return "two blocks overlap";
    }
  }
  if (covered == element_count(shape)) return std::nullopt;
  return "they have " + std::to_string(covered) + " of " + std::to_string(element_count(shape)) + " elements";
}

}  // namespace strata::host
