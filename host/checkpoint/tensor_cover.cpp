#include "checkpoint/tensor_cover.hpp"

#include <algorithm>
#include <cstddef>

namespace strata::host {
namespace {

using Parts = std::vector<const TensorPart*>;

/// Groups parts with equal blocks, sorted by their elements.
std::vector<Parts> by_block(const std::vector<TensorPart>& parts) {
  std::vector<Parts> groups;
  for (const TensorPart& part : parts) {
    const auto same =
        std::ranges::find_if(groups, [&](const Parts& group) { return group.front()->dims == part.dims; });
    if (same == groups.end()) {
      groups.push_back({&part});
    } else {
      same->push_back(&part);
    }
  }
  for (Parts& group : groups) {
    std::ranges::sort(group, [](const TensorPart* a, const TensorPart* b) { return a->begin < b->begin; });
  }
  return groups;
}

bool meet(const IndexMap& a, const IndexMap& b) {
  return std::ranges::any_of(a.segments, [&](const IndexSegment& x) {
    return std::ranges::any_of(b.segments, [&](const IndexSegment& y) {
      return x.global_begin < y.global_begin + y.length && y.global_begin < x.global_begin + x.length;
    });
  });
}

bool meet(const std::vector<IndexMap>& a, const std::vector<IndexMap>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const IndexMap& x, const IndexMap& y) { return meet(x, y); });
}

/// Number of axes of several ranks that shard the tensor, counted as often as they do.
std::size_t count_shards(const TensorStorage& storage, const Mesh& mesh) {
  std::size_t count = 0;
  const auto add = [&](const Axis& axis) { count += mesh.size(axis) > 1 ? 1 : 0; };
  for (const ShardedDim& dim : storage.dims) {
    for (const AxisShard& shard : dim.axes) add(shard.axis);
  }
  if (storage.bucket) std::ranges::for_each(storage.bucket->axes, add);
  return count;
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

bool StorageCover::is_whole(const TensorStorage& storage) {
  const AxisSet axes = shard_axes(storage);
  const auto several = std::ranges::count_if(axes, [&](const Axis& axis) { return mesh_.size(axis) > 1; });
  return count_shards(storage, mesh_) == static_cast<std::size_t>(several) &&
         std::ranges::all_of(storage.dims, [&](const ShardedDim& dim) { return is_dealt_once(dim); });
}

bool StorageCover::is_dealt_once(const ShardedDim& dim) {
  if (dim.axes.empty() || contains(known_, dim)) return true;
  std::vector<Axis> axes;
  for (const AxisShard& shard : dim.axes) axes.push_back(shard.axis);
  std::vector<IndexSegment> segments;
  for (const int rank : mesh_.group(0, axes)) {
    const IndexMap piece = index_map(dim, mesh_, mesh_.coordinates(rank));
    segments.insert(segments.end(), piece.segments.begin(), piece.segments.end());
  }
  std::ranges::sort(segments, {}, &IndexSegment::global_begin);
  std::int64_t end = 0;
  for (const IndexSegment& segment : segments) {
    if (segment.global_begin != end) return false;
    end += segment.length;
  }
  if (end != dim.global_size) return false;
  known_.push_back(dim);
  return true;
}

}  // namespace strata::host
