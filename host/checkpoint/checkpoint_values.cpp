// Restoring values alone: where training starts from the values of another model's checkpoint.

#include <algorithm>
#include <cstring>

#include "checkpoint/checkpoint.hpp"
#include "compiler/optimizer_groups.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace strata::host {
namespace {

/// True if the tensor is a parameter's value, or a state that begins as the value.
bool is_value(const PersistentTensor& tensor) {
  if (tensor.name == tensor.parameter->name) return true;
  const auto& states = tensor.parameter->states;
  return std::any_of(states.begin(), states.end(), [&](const auto& each) {
    return state_name(each.first, tensor.parameter->name) == tensor.name &&
           begins_as_value(*tensor.parameter, each.first);
  });
}

}  // namespace

void CheckpointReader::read_value(const std::string& parameter, const TensorPart& part, DType dtype, void* destination,
                                  RestoredWeights weights) const {
  const auto& tensors = manifest_.tensors;
  const auto stored = tensors.find(parameter);
  const std::string master = state_name(kMasterState, parameter);
  const std::string average = state_name(kAverageState, parameter);
  const bool is_rounded = stored != tensors.end() && stored->second.dtype != dtype && tensors.contains(master);
  const bool is_average = weights == RestoredWeights::average && tensors.contains(average);
  const std::string& source = is_average ? average : is_rounded ? master : parameter;
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
  read_agreed({tensor, source, part, DifferingReplicas::last_agreed}, part, replicas, data);
  std::memcpy(destination, data.data(), data.size());
}

std::vector<float> CheckpointReader::read_whole(const std::string& parameter, const Shape& shape) const {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  read_value(parameter, TensorPart::whole(shape), DType::f32, values.data());
  return values;
}

void CheckpointReader::restore_values(const Program& program, int rank, const WriteSlice& write,
                                      const std::function<void()>& restored) const {
  const auto& tensors = manifest_.tensors;
  std::vector<std::byte> data;
  for (const PersistentTensor& tensor : persistent_tensors(program)) {
    const std::string& value = tensor.parameter->name;
    const auto stored = tensors.find(value);
    const DerivedInitializer* derived =
        stored == tensors.end() ? derived_initializer(tensor.parameter->initialization) : nullptr;
    const bool is_derived = derived != nullptr && tensors.contains(derived->source().name);
    if (!is_value(tensor) || (stored == tensors.end() && !is_derived)) continue;
    const Shard shard = shard_of(program, *tensor.parameter, tensor.buffer, rank);
    if (shard.local_elements() == 0) continue;
    if (is_derived) {
      const std::vector<float> source = read_whole(derived->source().name, derived->source().shape);
      write(shard.slice(tensor.buffer), derived_values(*tensor.parameter, source, shard, tensor.dtype).data());
      if (restored) restored();
      continue;
    }
    data.resize(static_cast<std::size_t>(shard.local_elements()) * size_of(tensor.dtype));
    const std::string master = state_name(kMasterState, value);
    const bool is_rounded = stored->second.dtype != tensor.dtype && tensors.contains(master);
    const std::string source = is_rounded ? master : value;
    // Every replica of the run starts from the values on which the stored ones agree.
    if (has_other_replicas(tensor, source, shard.part())) {
      read_replicas({tensor, source, shard.part(), DifferingReplicas::last_agreed}, data);
    } else {
      read(source, shard.part(), tensor.dtype, data.data());
    }
    write(shard.slice(tensor.buffer), data.data());
    if (restored) restored();
  }
}

}  // namespace strata::host
