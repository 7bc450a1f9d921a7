#include <algorithm>
#include <cstring>

#include "checkpoint/checkpoint.hpp"
#include "compiler/optimizer_groups.hpp"
#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace strata::host {
namespace {

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

/// True if the tensor is a parameter's value, or a state that begins as the value.
bool is_value(const PersistentTensor& tensor) {
  if (tensor.name == tensor.parameter->name) return true;
  const auto& states = tensor.parameter->states;
  return std::ranges::any_of(states, [&](const auto& each) {
    return state_name(each.first, tensor.parameter->name) == tensor.name &&
           begins_as_value(*tensor.parameter, each.first);
  });
}

/// Begins the names of all states called `state`, which may have more words.
std::string states_prefix(std::string_view state) { return "optimizer/" + std::string(state); }

/// The tensor that has a parameter's value in the run's type without rounding: its master copy if the tensor `name`,
/// the value, is stored in another type and there is one.
std::string value_source(const std::map<std::string, ManifestTensor>& tensors, const std::string& name,
                         const std::string& parameter, DType dtype) {
  const std::string master = state_name(kMasterState, parameter);
  const bool is_rounded = name == parameter && tensors.at(name).dtype != dtype && tensors.contains(master);
  return is_rounded ? master : name;
}

/// Reads a part of one tensor of a run, whatever layout wrote it.
class TensorRestore {
 public:
  /// `part`: of the run's tensor. All references outlive it.
  TensorRestore(const CheckpointReader& checkpoint, const PersistentTensor& tensor, const TensorPart& part,
                DifferingReplicas differing)
      : checkpoint_(checkpoint),
        tensors_(checkpoint.manifest().tensors),
        tensor_(tensor),
        part_(part),
        differing_(differing) {}

  /// Reads `source`, a tensor of the checkpoint, or nothing if it is empty.
  void read(const std::string& source, std::vector<std::byte>& data) const {
    if (has_other_replicas(source)) return read_replicas(source, data);
    if (!source.empty()) checkpoint_.read(source, part_, tensor_.dtype, data.data());
  }

  /// Reads a tensor on which `replicas` agree.
  void read_agreed(const std::string& source, const TensorPart& of_replica, std::int64_t replicas,
                   std::vector<std::byte>& data) const {
    read_replica(source, of_replica, 0, replicas, data);
    std::vector<std::byte> other(data.size());
    for (std::int64_t index = 1; index < replicas; ++index) {
      read_replica(source, of_replica, index, replicas, other);
      if (other == data) continue;
      if (differing_ == DifferingReplicas::last_agreed) return read_last_agreed(source, of_replica, data);
      throw refusal("its " + std::to_string(replicas) + " replicas differ in '" + source + "'; resume with " +
                    std::to_string(replicas) + " replicas, or from a checkpoint of a step at which they agree");
    }
  }

  /// Name of the tensor in the checkpoint from which this one is restored. Empty if it begins with zeros.
  [[nodiscard]] std::string source(RestoredWeights weights) const {
    const std::string& value = tensor_.parameter->name;
    const std::string average = state_name(kAverageState, value);
    if (weights == RestoredWeights::average && tensor_.name == value && tensors_.contains(average)) return average;
    const std::string master = state_name(kMasterState, value);
    const auto found = tensors_.find(tensor_.name);
    const std::string state = state_of(tensor_);
    if (found == tensors_.end() && tensor_.name != master && tensor_.parameter->traits.contains(state)) {
      if (!begins_as_value(*tensor_.parameter, state)) return "";
      return tensors_.contains(master) ? master : value;
    }
    const bool is_own = found != tensors_.end() && traits_of(tensor_) != nullptr;
    if (is_own && has_other_dims(tensor_, found->second.shape)) return "";
    if (tensor_.name == master && found == tensors_.end()) return value;
    return found == tensors_.end() ? tensor_.name : value_source(tensors_, tensor_.name, value, tensor_.dtype);
  }

  /// \throws RuntimeError if the stored workers' states cannot be summed for the run's.
  void require_summable(const Mesh& mesh) const {
    const StateTraits* traits = traits_of(tensor_);
    const auto stored = tensors_.find(tensor_.name);
    const auto value = tensors_.find(tensor_.parameter->name);
    if (traits == nullptr || !traits->is_summed || stored == tensors_.end() || value == tensors_.end()) return;
    const std::int64_t replicas = mesh.size(tensor_.parameter->unsynchronized);
    const bool had_replicas = value->second.shape.size() > tensor_.parameter->dims.size();
    const std::int64_t stored_replicas = had_replicas ? value->second.shape.front() : 1;
    const std::int64_t stored_parts = stored->second.shape.front();
    const std::int64_t parts = part_.dims.front().global_size;
    if (replicas == 1 && stored_replicas == 1) return;
    if (replicas == stored_replicas && parts == stored_parts) return;
    const auto describe = [](std::int64_t all, std::int64_t groups) {
      return std::to_string(groups) + " replicas with " + std::to_string(all / groups) + " workers each";
    };
    throw refusal("'" + tensor_.name + "' is of " + describe(stored_parts, stored_replicas) + "; found " +
                  describe(parts, replicas) + "; accepted: the same numbers, or a single replica in both");
  }

 private:
  [[nodiscard]] RuntimeError refusal(const std::string& what) const {
    return RuntimeError("checkpoint '" + checkpoint_.directory().string() + "': " + what);
  }

  /// Reads a part of replica `index` of `count`.
  void read_replica(const std::string& source, TensorPart part, std::int64_t index, std::int64_t count,
                    std::vector<std::byte>& data) const {
    part.dims.insert(part.dims.begin(), IndexMap{count, {{0, index, 1}}});
    checkpoint_.read(source, part, tensor_.dtype, data.data());
  }

  /// True if the run has another number of replicas of the tensor than the checkpoint.
  [[nodiscard]] bool has_other_replicas(const std::string& source) const {
    const auto stored = tensors_.find(source);
    if (stored == tensors_.end()) return false;
    const Shape& shape = stored->second.shape;
    if (!has_replicas(tensor_, part_.dims.size()) && !has_replicas(tensor_, shape.size())) return false;
    return shape.size() != part_.dims.size() || shape.front() != part_.dims.front().global_size;
  }

  void read_replicas(const std::string& source, std::vector<std::byte>& data) const {
    const Shape& stored = tensors_.at(source).shape;
    const bool wanted = has_replicas(tensor_, part_.dims.size());
    TensorPart of_replica = part_;
    if (wanted) of_replica.dims.erase(of_replica.dims.begin());
    if (!has_replicas(tensor_, stored.size())) {
      return checkpoint_.read(source, of_replica, tensor_.dtype, data.data());
    }
    const std::int64_t replicas = stored.front();
    const std::string state = state_of(tensor_);
    if (traits_of(tensor_) != nullptr && traits_of(tensor_)->is_summed) {
      return read_summed(source, of_replica, replicas, data);
    }
    const bool is_average = source == state_name(kAverageState, tensor_.parameter->name);
    const bool is_of_optimizer = is_average || (!state.empty() && !begins_as_value(*tensor_.parameter, state));
    if (!is_of_optimizer) return read_agreed(source, of_replica, replicas, data);
    const std::int64_t index = wanted ? part_.dims.front().segments.front().global_begin : 0;
    read_replica(source, of_replica, index % replicas, replicas, data);
  }

  void read_summed(const std::string& source, const TensorPart& of_worker, std::int64_t workers,
                   std::vector<std::byte>& data) const {
    const IndexMap& wanted = part_.dims.front();
    const DType dtype = tensor_.dtype;
    std::vector<std::byte> other(data.size());
    for (std::int64_t i = wanted.segments.front().global_begin; i < workers; i += wanted.global_size) {
      read_replica(source, of_worker, i, workers, other);
      for (std::int64_t k = 0; k < of_worker.elements(); ++k) {
        store_element(dtype, data.data(), k,
                      load_element(dtype, data.data(), k) + load_element(dtype, other.data(), k));
      }
    }
  }

  void read_last_agreed(const std::string& source, const TensorPart& of_replica, std::vector<std::byte>& data) const {
    const std::string begin = states_prefix(kAgreedState);
    const std::string end = "/" + tensor_.parameter->name;
    for (const auto& [name, tensor] : tensors_) {
      const bool is_agreed = name.starts_with(begin) && name.ends_with(end);
      if (!is_agreed || tensor.shape != of_replica.tensor_shape()) continue;
      return checkpoint_.read(name, of_replica, tensor_.dtype, data.data());
    }
    throw refusal("its replicas differ in '" + source + "', and it lacks the values on which they agreed");
  }

  const CheckpointReader& checkpoint_;
  const std::map<std::string, ManifestTensor>& tensors_;
  const PersistentTensor& tensor_;
  const TensorPart& part_;
  DifferingReplicas differing_;
};

}  // namespace

bool CheckpointReader::has_average() const {
  return std::ranges::any_of(manifest_.tensors,
                             [](const auto& each) { return each.first.starts_with(state_name(kAverageState, "")); });
}

void CheckpointReader::require(RestoredWeights weights) const {
  if (weights == RestoredWeights::trained || has_average()) return;
  throw ConfigurationError("checkpoint '" + directory().string() +
                           "' has no moving average of the weights; accepted: one of a run with [optimizer.average]");
}

std::vector<std::string> CheckpointReader::dropped(const CheckpointPlan& plan) const {
  const std::string begin = states_prefix(kPendingState);
  std::vector<std::string> names;
  for (const auto& stored : manifest_.tensors) {
    const std::string& name = stored.first;
    const bool is_restored =
        std::ranges::any_of(plan.tensors(), [&](const CheckpointTensor& each) { return each.name == name; });
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
    const TensorPart& part = shard.part();
    const TensorRestore restore(*this, tensor, part, differing);
    restore.require_summable(program.mesh);
    restore.read(restore.source(weights), data);
    write(shard.slice(tensor.buffer), data.data());
    if (restored) restored();
  }
}

void CheckpointReader::restore_values(const Program& program, int rank, const WriteSlice& write,
                                      const std::function<void()>& restored) const {
  const auto& tensors = manifest_.tensors;
  std::vector<std::byte> data;
  for (const PersistentTensor& tensor : persistent_tensors(program)) {
    const std::string& value = tensor.parameter->name;
    const bool is_stored = tensors.contains(value);
    const DerivedInitializer* derived = is_stored ? nullptr : derived_initializer(tensor.parameter->initialization);
    const bool is_derived = derived != nullptr && tensors.contains(derived->source().name);
    if (!is_value(tensor) || (!is_stored && !is_derived)) continue;
    const Shard shard = shard_of(program, *tensor.parameter, tensor.buffer, rank);
    if (shard.local_elements() == 0) continue;
    if (is_derived) {
      const Shape& shape = derived->source().shape;
      std::vector<float> source(static_cast<std::size_t>(element_count(shape)));
      read_value(derived->source().name, TensorPart::whole(shape), DType::f32, source.data());
      data = derived_values(*tensor.parameter, source, shard, tensor.dtype);
    } else {
      // Every replica of the run starts from the values on which the stored ones agree.
      data.resize(static_cast<std::size_t>(shard.local_elements()) * size_of(tensor.dtype));
      const TensorPart& part = shard.part();
      TensorRestore(*this, tensor, part, DifferingReplicas::last_agreed)
          .read(value_source(tensors, value, value, tensor.dtype), data);
    }
    write(shard.slice(tensor.buffer), data.data());
    if (restored) restored();
  }
}

void CheckpointReader::read_value(const std::string& parameter, const TensorPart& part, DType dtype, void* destination,
                                  RestoredWeights weights) const {
  const auto& tensors = manifest_.tensors;
  const std::string average = state_name(kAverageState, parameter);
  const bool is_average = weights == RestoredWeights::average && tensors.contains(average);
  std::string source = is_average ? average : parameter;
  if (!is_average && tensors.contains(parameter)) source = value_source(tensors, parameter, parameter, dtype);
  const auto found = tensors.find(source);
  const bool has_replicas = found != tensors.end() && found->second.shape.size() == part.dims.size() + 1;
  if (!has_replicas) return read(source, part, dtype, destination);
  const std::int64_t replicas = found->second.shape.front();
  if (is_average) {
    TensorPart of_first = part;
    of_first.dims.insert(of_first.dims.begin(), IndexMap{replicas, {{0, 0, 1}}});
    return read(source, of_first, dtype, destination);
  }
  StoredParameter described;
  described.name = parameter;
  const PersistentTensor tensor{parameter, -1, dtype, &described};
  std::vector<std::byte> data(static_cast<std::size_t>(part.elements()) * size_of(dtype));
  TensorRestore(*this, tensor, part, DifferingReplicas::last_agreed).read_agreed(source, part, replicas, data);
  std::memcpy(destination, data.data(), data.size());
}

}  // namespace strata::host
