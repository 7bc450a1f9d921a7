#include "compiler/parameters/buckets.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace strata::host {
namespace {

AxisSet shard_axes(const StoredParameter& parameter) {
  AxisSet axes;
  for (const ShardedDim& dim : parameter.dims) {
    for (const AxisShard& shard : dim.axes) axes.insert(shard.axis);
  }
  return axes;
}

bool is_alike(const Bucket& a, const Bucket& b) {
  return a.storage == b.storage && a.shard_axes == b.shard_axes && a.stages == b.stages && a.type == b.type &&
         a.gradient_type == b.gradient_type;
}

bool is_low_precision(DType type) { return type != DType::f64 && type != DType::f32; }

}  // namespace

std::string partial_suffix(const AxisSet& partial) {
  return partial.empty() ? "" : " partial " + join({partial.begin(), partial.end()}, "+");
}

const BucketMember& BucketMaker::member(std::size_t index) const {
  return *std::find_if(members_.begin(), members_.end(), [&](const auto& each) { return each.index == index; });
}

std::int64_t BucketMaker::size_of_member(const BucketMember& member) const {
  const StoredParameter& parameter = builder_.program().parameters[member.index];
  return builder_.buffer(parameter.value).elements();
}

Bucket BucketMaker::open(const BucketMember& member) const {
  const StoredParameter& parameter = builder_.program().parameters[member.index];
  Bucket bucket;
  bucket.storage = member.storage;
  bucket.pieces = member.storage.single_writer ? 1 : builder_.program().mesh.size(member.storage.axes);
  bucket.shard_axes = shard_axes(parameter);
  bucket.stages = member.stages;
  bucket.type = builder_.buffer(parameter.value).dtype;
  bucket.gradient_type = member.gradient_type;
  return bucket;
}

std::vector<Bucket> BucketMaker::make_dealt() {
  std::vector<Bucket> buckets;
  std::vector<int> block_of;  // by bucket
  for (const BucketMember& each : members_) {
    Bucket fresh = open(each);
    if (!fresh.reduces_each_micro_batch() || each.block < 0) continue;
    const std::int64_t size = size_of_member(each) * static_cast<std::int64_t>(size_of(fresh.gradient_type));
    std::size_t at = buckets.size();
    for (std::size_t i = buckets.size(); i-- > 0;) {
      const Bucket& known = buckets[i];
      const bool near = !known.gathers_values() || block_of[i] == each.block;
      // A tied parameter must lie alike on all its stages, whose other parameters differ.
      if (!is_alike(known, fresh) || !near || known.stages.size() > 1) continue;
      if (known.elements * static_cast<std::int64_t>(size_of(known.gradient_type)) + size <= bytes_) at = i;
      break;
    }
    if (at == buckets.size()) {
      buckets.push_back(std::move(fresh));
      block_of.push_back(each.block);
    }
    buckets[at].parameters.push_back(each.index);
    buckets[at].elements += size_of_member(each);
  }
  for (Bucket& bucket : buckets) lay_out(bucket);
  return buckets;
}

std::vector<Bucket> BucketMaker::make_whole(const GradientAccumulators& gradients) {
  using Likeness = std::pair<std::size_t, std::vector<AxisSet>>;  // first bucket of the kind, partial sets
  std::vector<Bucket> buckets;
  std::map<Likeness, std::size_t> last;
  for (const auto& [name, accumulators] : gradients) {
    const auto& parameters = builder_.program().parameters;
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&, &wanted = name](const auto& each) { return each.name == wanted; });
    const BucketMember& each = member(static_cast<std::size_t>(found - parameters.begin()));
    Bucket fresh = open(each);
    std::vector<AxisSet> partial_sets;
    for (const auto& [partial, buffer] : accumulators) partial_sets.push_back(partial);
    const auto first = std::find_if(buckets.begin(), buckets.end(), [&](const auto& b) { return is_alike(b, fresh); });
    const Likeness likeness{static_cast<std::size_t>(first - buckets.begin()), partial_sets};
    const auto open_bucket = last.find(likeness);
    const std::int64_t size = static_cast<std::int64_t>(size_of(fresh.gradient_type));
    const bool fits = open_bucket != last.end() && fresh.stages.size() == 1 &&
                      (buckets[open_bucket->second].elements + size_of_member(each)) * size <= bytes_;
    if (!fits) {
      for (const AxisSet& partial : partial_sets) fresh.gradients.emplace_back(partial, -1);
      last[likeness] = buckets.size();
      buckets.push_back(std::move(fresh));
    }
    Bucket& bucket = buckets[last[likeness]];
    bucket.parameters.push_back(each.index);
    bucket.elements += size_of_member(each);
  }
  for (Bucket& bucket : buckets) {
    lay_out(bucket);
    for (auto& [partial, gradient] : bucket.gradients) {
      gradient = builder_.add_flat(bucket.name + ".gradient" + partial_suffix(partial), BufferKind::gradient,
                                   bucket.gradient_type, bucket.elements, true);
    }
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      StoredParameter& parameter = builder_.program().parameters[bucket.parameters[i]];
      const auto& accumulators = std::find_if(gradients.begin(), gradients.end(), [&](const auto& each) {
                                   return each.first == parameter.name;
                                 })->second;
      std::size_t at = 0;
      for (const auto& [partial, buffer] : accumulators) {
        builder_.make_view(buffer, bucket.gradients[at++].second, bucket.offsets[i]);
      }
      parameter.gradient = accumulators.begin()->second;
    }
  }
  return buckets;
}

/// Fixes where parameters lie and makes the values' buffer.
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

void BucketMaker::put(BufferId buffer, const Bucket& bucket, MemoryPlace place) {
  builder_.buffer(buffer).place = place;
  if (place == MemoryPlace::file) builder_.program().offload_directory = bucket.storage.directory;
}

void BucketMaker::make_value_views(Bucket& bucket) {
  const bool dealt = bucket.gathers_values();
  bucket.values = builder_.add_flat(bucket.name + (dealt ? " piece" : ""), BufferKind::parameter, bucket.type,
                                    dealt ? bucket.piece_elements() : bucket.elements, true);
  put(bucket.values, bucket, bucket.storage.values_place);
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    StoredParameter& parameter = builder_.program().parameters[bucket.parameters[i]];
    if (bucket.stores_pieces()) {
      parameter.sharding = FlatSharding{bucket.storage.axes, bucket.elements, bucket.offsets[i], dealt};
    }
    if (dealt) {
      // What is stored is the piece; the parameter's own buffer describes what is gathered, and has no memory.
      builder_.buffer(parameter.value).persistent = false;
      parameter.value = bucket.values;
    } else {
      builder_.make_view(parameter.value, bucket.values, bucket.offsets[i]);
    }
  }
}

void BucketMaker::add_states(Bucket& bucket, const std::vector<std::string>& states) {
  std::vector<std::string> names = states;
  if (is_low_precision(bucket.type)) names.insert(names.begin(), kMasterState);
  const DType type = bucket.type == DType::f64 ? DType::f64 : DType::f32;
  for (const std::string& name : names) {
    const BufferId flat =
        builder_.add_flat(bucket.name + "." + name, BufferKind::optimizer, type, bucket.piece_elements(), true);
    put(flat, bucket, bucket.storage.states_place);
    bucket.states.push_back(flat);
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      StoredParameter& parameter = builder_.program().parameters[bucket.parameters[i]];
      if (bucket.stores_pieces()) {
        parameter.states[name] = flat;
        continue;
      }
      const Buffer value = builder_.buffer(parameter.value);
      parameter.states[name] =
          builder_.add_buffer(parameter.name + "." + name, BufferKind::optimizer, type, value.dims, value.shape, true);
      builder_.make_view(parameter.states[name], flat, bucket.offsets[i]);
      put(parameter.states[name], bucket, bucket.storage.states_place);
    }
  }
}

}  // namespace strata::host
