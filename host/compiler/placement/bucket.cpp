#include "compiler/placement/bucket.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

AxisSet shard_axes(const StoredParameter& parameter) {
  AxisSet axes;
  for (const ShardedDim& dim : parameter.dims) {
    for (const AxisShard& shard : dim.axes) axes.insert(shard.axis);
  }
  return axes;
}

}  // namespace

bool BucketMaker::is_alike(const Bucket& bucket, const Bucket& other) {
  return bucket.storage == other.storage && bucket.shard_axes == other.shard_axes && bucket.stages == other.stages &&
         bucket.role == other.role && bucket.group == other.group &&
         bucket.has_one_parameter == other.has_one_parameter && bucket.fragments == other.fragments &&
         bucket.has_gradient == other.has_gradient && bucket.type == other.type &&
         bucket.gradient_type == other.gradient_type;
}

std::int64_t BucketMaker::size_of_member(const BucketMember& member) const {
  const StoredParameter& parameter = builder_.program().parameters[member.index];
  return builder_.buffer(parameter.value).elements();
}

Bucket BucketMaker::open(const BucketMember& member) const {
  const StoredParameter& parameter = builder_.program().parameters[member.index];
  Bucket bucket;
  bucket.parameters = {member.index};
  bucket.elements = size_of_member(member);
  bucket.storage = member.storage;
  bucket.pieces = member.storage.single_writer ? 1 : builder_.mesh().size(member.storage.axes);
  bucket.shard_axes = shard_axes(parameter);
  bucket.stages = member.stages;
  bucket.role = parameter.role;
  bucket.group = member.group;
  bucket.has_one_parameter = member.has_own_bucket;
  bucket.fragments = member.fragments;
  bucket.has_gradient = member.has_gradient;
  bucket.type = builder_.buffer(parameter.value).dtype;
  bucket.gradient_type = member.gradient_type;
  return bucket;
}

bool BucketMaker::add(Bucket& bucket, const BucketMember& member) const {
  if (bucket.has_one_parameter || member.has_own_bucket) return false;
  const std::int64_t elements = bucket.elements + size_of_member(member);
  if (elements * static_cast<std::int64_t>(size_of(bucket.gradient_type)) > bytes_) return false;
  bucket.parameters.push_back(member.index);
  bucket.elements = elements;
  return true;
}

void BucketMaker::lay_out(Bucket& bucket) {
  auto& parameters = builder_.program().parameters;
  bucket.name = "bucket " + std::to_string(count_++);
  std::stable_partition(bucket.parameters.begin(), bucket.parameters.end(),
                        [&](std::size_t i) { return parameters[i].decay; });
  std::int64_t offset = 0;
  for (const std::size_t index : bucket.parameters) {
    bucket.offsets.push_back(offset);
    offset += builder_.buffer(parameters[index].value).elements();
    if (parameters[index].decay) bucket.decay_elements = offset;
  }
  bucket.elements = (offset + bucket.pieces - 1) / bucket.pieces * bucket.pieces;
  make_value_views(bucket);
}

void BucketMaker::make_value_views(Bucket& bucket) {
  const bool dealt = bucket.gathers_values();
  bucket.values = builder_.add_flat(bucket.name + (dealt ? " piece" : ""), BufferKind::parameter, bucket.type,
                                    dealt ? bucket.piece_elements() : bucket.elements, true);
  put_buffer(builder_, bucket.values, bucket, bucket.storage.values_place);
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    StoredParameter& parameter = builder_.program().parameters[bucket.parameters[i]];
    if (bucket.stores_pieces()) {
      parameter.sharding = FlatSharding{bucket.storage.axes, bucket.elements, bucket.offsets[i], dealt};
    }
    if (dealt) {
      // The rank stores the piece. The parameter's buffer describes the gathered values and has no memory of its own.
      builder_.buffer(parameter.value).persistent = false;
      parameter.value = bucket.values;
    } else {
      builder_.make_view(parameter.value, bucket.values, bucket.offsets[i]);
    }
  }
}

AxisSet Bucket::piece_axes() const {
  AxisSet axes = shard_axes;
  if (pieces > 1) axes.insert(storage.axes.begin(), storage.axes.end());
  return axes;
}

DType full_type(const Bucket& bucket) { return bucket.type == DType::f64 ? DType::f64 : DType::f32; }

std::vector<ShardedDim> piece_iteration(const Program& program, const Bucket& bucket) {
  std::vector<ShardedDim> iteration{{"flat", bucket.elements, {}, false}};
  if (bucket.pieces > 1) {
    for (const Axis& axis : bucket.storage.axes) iteration.front().axes.push_back({axis, Distribution::block});
  }
  if (bucket.has_one_parameter) {
    const std::vector<ShardedDim>& dims = program.parameters[bucket.parameters.front()].dims;
    iteration.insert(iteration.end(), dims.begin(), dims.end());
  }
  return iteration;
}

void put_buffer(ProgramBuilder& builder, BufferId buffer, const Bucket& bucket, MemoryPlace place) {
  builder.buffer(buffer).place = place;
  if (place == MemoryPlace::file) builder.program().offload_directory = bucket.storage.directory;
}

}  // namespace strata::host
