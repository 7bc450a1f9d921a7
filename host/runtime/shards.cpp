#include "runtime/shards.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The axes along which ranks hold different values or states, beside those that shard the parameter.
const std::vector<Axis>& unsynchronized_axes(const StoredParameter& parameter, BufferId buffer) {
  for (const auto& [name, traits] : parameter.traits) {
    const auto state = parameter.states.find(name);
    if (state != parameter.states.end() && state->second == buffer) return traits.unsynchronized;
  }
  return parameter.unsynchronized;
}

}  // namespace

TensorStorage storage_of(const Program& program, const StoredParameter& parameter, BufferId buffer) {
  const bool is_piece = parameter.sharding && (buffer != parameter.value || parameter.sharding->values);
  TensorStorage storage{parameter.dims, is_piece ? parameter.sharding : std::nullopt};
  for (const auto& [name, dims] : parameter.state_dims) {
    if (parameter.states.at(name) != buffer) continue;
    const auto sharding = parameter.state_sharding.find(name);
    storage = {dims, sharding == parameter.state_sharding.end() ? std::nullopt : std::optional(sharding->second)};
  }
  const std::vector<Axis>& unsynchronized = unsynchronized_axes(parameter, buffer);
  if (unsynchronized.empty()) return storage;
  ShardedDim replicas{kReplicaDim, program.mesh.size(unsynchronized), {}, false};
  for (const Axis& axis : unsynchronized) replicas.axes.push_back({axis, Distribution::block});
  storage.dims.insert(storage.dims.begin(), std::move(replicas));
  return storage;
}

AxisSet shard_axes(const TensorStorage& storage) {
  AxisSet axes;
  for (const ShardedDim& dim : storage.dims) {
    for (const AxisShard& shard : dim.axes) axes.insert(shard.axis);
  }
  if (storage.bucket) axes.insert(storage.bucket->axes.begin(), storage.bucket->axes.end());
  return axes;
}

Shard::Shard(const TensorStorage& storage, const Mesh& mesh, int rank) {
  const Coordinates coordinates = mesh.coordinates(rank);
  std::vector<IndexMap> dims;
  dims.reserve(storage.dims.size());
  for (const ShardedDim& dim : storage.dims) dims.push_back(index_map(dim, mesh, coordinates));
  part_ = TensorPart::block(std::move(dims));
  buffer_elements_ = part_.elements();
  if (storage.bucket) cut(*storage.bucket, mesh, coordinates);
}

void Shard::cut(const FlatSharding& bucket, const Mesh& mesh, const Coordinates& coordinates) {
  const std::int64_t block = part_.elements();
  const std::int64_t count = mesh.size(bucket.axes);
  if (bucket.elements % count != 0 || bucket.offset < 0 || bucket.offset > bucket.elements - block) {
    throw VerificationError("a flat bucket of " + std::to_string(bucket.elements) + " elements, dealt to " +
                            std::to_string(count) + " ranks, cannot hold " + std::to_string(block) + " elements at " +
                            std::to_string(bucket.offset));
  }
  std::int64_t index = 0;
  for (const Axis& axis : bucket.axes) index = index * mesh.size(axis) + coordinates.at(axis);
  buffer_elements_ = bucket.elements / count;
  const std::int64_t piece_begin = index * buffer_elements_ - bucket.offset;
  part_.begin = std::clamp<std::int64_t>(piece_begin, 0, block);
  part_.end = std::clamp<std::int64_t>(piece_begin + buffer_elements_, part_.begin, block);
  buffer_begin_ = part_.elements() == 0 ? 0 : part_.begin - piece_begin;
}

Shard shard_of(const Program& program, const StoredParameter& parameter, BufferId buffer, int rank) {
  const std::int64_t found = program.buffer(buffer).elements();
  try {
    Shard shard(storage_of(program, parameter, buffer), program.mesh, rank);
    if (shard.buffer_elements() == found) return shard;
    throw VerificationError("buffer '" + program.buffer(buffer).name + "' has " + std::to_string(found) +
                            " elements; its storage has " + std::to_string(shard.buffer_elements()));
  } catch (const VerificationError& error) {
    throw VerificationError("parameter '" + parameter.name + "' on rank " + std::to_string(rank) + ": " + error.what());
  }
}

void clear_flat_buffers(const Program& program, const WriteSlice& write) {
  std::set<BufferId> buffers;
  for (const StoredParameter& parameter : program.parameters) {
    for (const auto& [name, sharding] : parameter.state_sharding) buffers.insert(parameter.states.at(name));
    if (!parameter.sharding) continue;
    buffers.insert(program.root(parameter.value));
    for (const auto& [name, state] : parameter.states) buffers.insert(program.root(state));
  }
  constexpr std::int64_t kElementsAtOnce = 1 << 16;
  const std::vector<std::byte> zeros(kElementsAtOnce * sizeof(double));
  for (const BufferId buffer : buffers) {
    const std::int64_t elements = program.buffer(buffer).elements();
    for (std::int64_t begin = 0; begin < elements; begin += kElementsAtOnce) {
      write({buffer, begin, std::min(kElementsAtOnce, elements - begin)}, zeros.data());
    }
  }
}

}  // namespace strata::host
