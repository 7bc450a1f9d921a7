#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "compiler/optimizer_groups.hpp"
#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The leading dimension that selects replica `index` of `count`.
IndexMap one_replica(std::int64_t index, std::int64_t count) { return {count, {{0, index, 1}}}; }

/// `part` of one replica's tensor, in the tensor of all replicas.
TensorPart in_replica(const TensorPart& part, std::int64_t index, std::int64_t count) {
  TensorPart result = part;
  result.dims.insert(result.dims.begin(), one_replica(index, count));
  return result;
}

/// The state's name within "optimizer/NAME/PARAMETER". Empty for a value.
std::string state_of(const PersistentTensor& tensor) {
  for (const auto& [state, buffer] : tensor.parameter->states) {
    if (state_name(state, tensor.parameter->name) == tensor.name) return state;
  }
  return "";
}

/// The traits of a strategy's state. Null for values and for states of optimizers.
const StateTraits* traits_of(const PersistentTensor& tensor) {
  const auto found = tensor.parameter->traits.find(state_of(tensor));
  return found == tensor.parameter->traits.end() ? nullptr : &found->second;
}

/// The state's own dims. Null if it has those of the parameter.
const std::vector<ShardedDim>* own_dims(const PersistentTensor& tensor) {
  const auto found = tensor.parameter->state_dims.find(state_of(tensor));
  return found == tensor.parameter->state_dims.end() ? nullptr : &found->second;
}

/// True if a tensor of `dims` dimensions has the leading one that counts replicas or workers.
bool has_replicas(const PersistentTensor& tensor, std::size_t dims) {
  const std::vector<ShardedDim>* own = own_dims(tensor);
  return dims > (own == nullptr ? tensor.parameter->dims.size() : own->size());
}

/// True if a tensor of the shape `stored` has other sizes of its own dims than the state, such as factors of another
/// rank.
bool has_other_dims(const PersistentTensor& tensor, const Shape& stored) {
  const std::vector<ShardedDim>* own = own_dims(tensor);
  if (own == nullptr || stored.size() < own->size()) return own != nullptr;
  return !std::equal(own->begin(), own->end(), stored.end() - static_cast<std::ptrdiff_t>(own->size()),
                     [](const ShardedDim& dim, std::int64_t size) { return dim.global_size == size; });
}

}  // namespace

bool CheckpointReader::has_average() const {
  return std::any_of(manifest_.tensors.begin(), manifest_.tensors.end(),
                     [](const auto& each) { return each.first.starts_with(state_name(kAverageState, "")); });
}

void CheckpointReader::require(RestoredWeights weights) const {
  if (weights == RestoredWeights::trained || has_average()) return;
  throw ConfigurationError("checkpoint '" + directory().string() +
                           "' has no moving average of the weights; accepted: one of a run with [optimizer.average]");
}

std::string CheckpointReader::source_of(const PersistentTensor& tensor, RestoredWeights weights) const {
  const auto& tensors = manifest_.tensors;
  const std::string& value = tensor.parameter->name;
  const std::string average = state_name(kAverageState, value);
  if (weights == RestoredWeights::average && tensor.name == value && tensors.contains(average)) return average;
  const std::string master = state_name(kMasterState, value);
  const auto found = tensors.find(tensor.name);
  const std::string state = state_of(tensor);
  if (found == tensors.end() && tensor.name != master && tensor.parameter->traits.contains(state)) {
    if (!begins_as_value(*tensor.parameter, state)) return "";
    return tensors.contains(master) ? master : value;
  }
  const bool is_own = found != tensors.end() && traits_of(tensor) != nullptr;
  if (is_own && has_other_dims(tensor, found->second.shape)) return "";
  if (tensor.name == master && found == tensors.end()) return value;
  const bool is_rounded = tensor.name == value && found != tensors.end() && found->second.dtype != tensor.dtype;
  return is_rounded && tensors.contains(master) ? master : tensor.name;
}

void CheckpointReader::read_replicas(const Restored& restored, std::vector<std::byte>& data) const {
  const PersistentTensor& tensor = restored.tensor;
  const Shape& stored = manifest_.tensors.at(restored.source).shape;
  const bool wanted = has_replicas(tensor, restored.part.dims.size());
  TensorPart of_replica = restored.part;
  if (wanted) of_replica.dims.erase(of_replica.dims.begin());
  if (!has_replicas(tensor, stored.size())) return read(restored.source, of_replica, tensor.dtype, data.data());
  const std::int64_t replicas = stored.front();
  const std::string state = state_of(tensor);
  const bool is_average = restored.source == state_name(kAverageState, tensor.parameter->name);
  if (traits_of(tensor) != nullptr && traits_of(tensor)->is_summed) {
    return read_summed(restored, of_replica, replicas, data);
  }
  const bool is_of_optimizer = is_average || (!state.empty() && !begins_as_value(*tensor.parameter, state));
  if (!is_of_optimizer) return read_agreed(restored, of_replica, replicas, data);
  const std::int64_t index = wanted ? restored.part.dims.front().segments.front().global_begin : 0;
  read(restored.source, in_replica(of_replica, index % replicas, replicas), tensor.dtype, data.data());
}

void CheckpointReader::read_summed(const Restored& restored, const TensorPart& of_worker, std::int64_t workers,
                                   std::vector<std::byte>& data) const {
  const IndexMap& wanted = restored.part.dims.front();
  const DType dtype = restored.tensor.dtype;
  std::vector<std::byte> other(data.size());
  for (std::int64_t i = wanted.segments.front().global_begin; i < workers; i += wanted.global_size) {
    read(restored.source, in_replica(of_worker, i, workers), dtype, other.data());
    for (std::int64_t k = 0; k < of_worker.elements(); ++k) {
      store_element(dtype, data.data(), k, load_element(dtype, data.data(), k) + load_element(dtype, other.data(), k));
    }
  }
}

void CheckpointReader::require_summable(const Program& program, const PersistentTensor& tensor,
                                        const TensorPart& part) const {
  const StateTraits* traits = traits_of(tensor);
  const auto stored = manifest_.tensors.find(tensor.name);
  const auto value = manifest_.tensors.find(tensor.parameter->name);
  if (traits == nullptr || !traits->is_summed) return;
  if (stored == manifest_.tensors.end() || value == manifest_.tensors.end()) return;
  const std::int64_t replicas = program.mesh.size(tensor.parameter->unsynchronized);
  const bool had_replicas = value->second.shape.size() > tensor.parameter->dims.size();
  const std::int64_t stored_replicas = had_replicas ? value->second.shape.front() : 1;
  const std::int64_t stored_parts = stored->second.shape.front();
  const std::int64_t parts = part.dims.front().global_size;
  if (replicas == 1 && stored_replicas == 1) return;
  if (replicas == stored_replicas && parts == stored_parts) return;
  const auto describe = [](std::int64_t all, std::int64_t of) {
    return std::to_string(of) + " replicas with " + std::to_string(all / of) + " workers each";
  };
  throw RuntimeError("checkpoint '" + directory_.string() + "': '" + tensor.name + "' is of " +
                     describe(stored_parts, stored_replicas) + "; found " + describe(parts, replicas) +
                     "; accepted: the same numbers, or a single replica in both");
}

void CheckpointReader::read_agreed(const Restored& restored, const TensorPart& of_replica, std::int64_t replicas,
                                   std::vector<std::byte>& data) const {
  const DType dtype = restored.tensor.dtype;
  read(restored.source, in_replica(of_replica, 0, replicas), dtype, data.data());
  std::vector<std::byte> other(data.size());
  for (std::int64_t index = 1; index < replicas; ++index) {
    read(restored.source, in_replica(of_replica, index, replicas), dtype, other.data());
    if (other == data) continue;
    if (restored.differing == DifferingReplicas::last_agreed) return read_last_agreed(restored, of_replica, data);
    throw RuntimeError("checkpoint '" + directory_.string() + "': its " + std::to_string(replicas) +
                       " replicas differ in '" + restored.source + "'; resume with " + std::to_string(replicas) +
                       " replicas, or from a checkpoint of a step at which they agree");
  }
}

void CheckpointReader::read_last_agreed(const Restored& restored, const TensorPart& of_replica,
                                        std::vector<std::byte>& data) const {
  const std::string begin = state_name(kAgreedState, "").substr(0, state_name(kAgreedState, "").size() - 1);
  const std::string end = "/" + restored.tensor.parameter->name;
  for (const auto& [name, tensor] : manifest_.tensors) {
    const bool is_agreed = name.starts_with(begin) && name.ends_with(end);
    if (!is_agreed || tensor.shape != of_replica.tensor_shape()) continue;
    return read(name, of_replica, restored.tensor.dtype, data.data());
  }
  throw RuntimeError("checkpoint '" + directory_.string() + "': its replicas differ in '" + restored.source +
                     "', and it lacks the values on which they agreed");
}

bool CheckpointReader::has_other_replicas(const PersistentTensor& tensor, const std::string& source,
                                          const TensorPart& part) const {
  const auto stored = manifest_.tensors.find(source);
  if (stored == manifest_.tensors.end()) return false;
  const Shape& shape = stored->second.shape;
  if (!has_replicas(tensor, part.dims.size()) && !has_replicas(tensor, shape.size())) return false;
  return shape.size() != part.dims.size() || shape.front() != part.dims.front().global_size;
}

std::vector<std::string> CheckpointReader::dropped(const std::vector<CheckpointTensor>& plan) const {
  const std::string begin = state_name(kPendingState, "").substr(0, state_name(kPendingState, "").size() - 1);
  std::vector<std::string> names;
  for (const auto& stored : manifest_.tensors) {
    const std::string& name = stored.first;
    const bool is_restored =
        std::any_of(plan.begin(), plan.end(), [&](const CheckpointTensor& each) { return each.name == name; });
    if (name.starts_with(begin) && !is_restored) names.push_back(name);
  }
  return names;
}

void CheckpointReader::restore(const Program& program, int rank, const WriteSlice& write, DifferingReplicas differing,
                               RestoredWeights weights, const std::function<void()>& restored) const {
  clear_flat_buffers(program, write);
  std::vector<std::byte> data;
  for (const PersistentTensor& tensor : persistent_tensors(program)) {
    const Shard shard = shard_of(program, *tensor.parameter, tensor.buffer, rank);
    if (shard.local_elements() == 0) continue;
    data.assign(static_cast<std::size_t>(shard.local_elements()) * size_of(tensor.dtype), std::byte{0});
    const std::string source = source_of(tensor, weights);
    require_summable(program, tensor, shard.part());
    if (has_other_replicas(tensor, source, shard.part())) {
      read_replicas({tensor, source, shard.part(), differing}, data);
    } else if (!source.empty()) {
      read(source, shard.part(), tensor.dtype, data.data());
    }
    write(shard.slice(tensor.buffer), data.data());
    if (restored) restored();
  }
}

}  // namespace strata::host
