#include "checkpoint/checkpoint_plan.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/part_cover.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// A rank that holds a part of a tensor.
struct Holder {
  int rank = 0;
  const Program* program = nullptr;
  const StoredParameter* parameter = nullptr;
  BufferId buffer = -1;
};

/// The parts of a tensor on all ranks that store it in the same way.
struct Holding {
  TensorStorage storage;
  DType dtype = DType::f32;
  Shape shape;
  AxisSet axes;
  /// The ranks that hold the same part, by their coordinates along `axes`.
  std::map<std::vector<int>, std::vector<Holder>> holders;
};

/// A part of a tensor, and the ranks that hold it.
struct SharedPart {
  /// The tensor's index in the plan.
  std::size_t tensor = 0;
  std::vector<Holder> holders;
  TensorPart part;
  std::int64_t bytes = 0;
};

Holding& holding_of(std::vector<Holding>& holdings, const TensorStorage& storage, DType dtype) {
  const auto found = std::find_if(holdings.begin(), holdings.end(),
                                  [&](const Holding& each) { return each.dtype == dtype && each.storage == storage; });
  if (found != holdings.end()) return *found;
  Holding& holding = holdings.emplace_back();
  holding.storage = storage;
  holding.dtype = dtype;
  for (const ShardedDim& dim : storage.dims) holding.shape.push_back(dim.global_size);
  holding.axes = shard_axes(storage);
  return holding;
}

void add(Holding& holding, const Coordinates& coordinates, const Holder& holder) {
  std::vector<int> place;
  for (const Axis& axis : holding.axes) place.push_back(coordinates.at(axis));
  holding.holders[std::move(place)].push_back(holder);
}

Shard shard_at(const Holder& holder) {
  return shard_of(*holder.program, *holder.parameter, holder.buffer, holder.rank);
}

/// The parts that make the tensor whole, of the first way of storing it in which they do.
std::vector<SharedPart> shared_parts(std::size_t index, CheckpointTensor& tensor, std::vector<Holding>& holdings) {
  std::optional<std::string> first_fault;
  for (Holding& holding : holdings) {
    std::vector<SharedPart> shared;
    std::vector<TensorPart> parts;
    for (auto& [place, holders] : holding.holders) {
      const Shard shard = shard_at(holders.front());
      if (shard.local_elements() == 0) continue;
      parts.push_back(shard.part());
      const std::int64_t bytes = shard.local_elements() * static_cast<std::int64_t>(size_of(holding.dtype));
      shared.push_back({index, std::move(holders), shard.part(), bytes});
    }
    const std::optional<std::string> fault = find_cover_fault(holding.shape, parts);
    if (!fault) {
      tensor.dtype = holding.dtype;
      tensor.shape = holding.shape;
      return shared;
    }
    if (!first_fault) first_fault = fault;
  }
  throw VerificationError("the ranks' parts of '" + tensor.name +
                          "' do not make it whole: " + first_fault.value_or("none"));
}

/// True for a value that no step changes. Replicas that train apart average all their values.
bool is_frozen(const PersistentTensor& tensor) {
  const StoredParameter& parameter = *tensor.parameter;
  return parameter.role == ParameterRole::frozen && parameter.unsynchronized.empty() && tensor.name == parameter.name;
}

/// Chooses the rank that writes each part.
void deal(std::vector<SharedPart> parts, int ranks, std::vector<CheckpointTensor>& plan) {
  // Parts of a single rank leave no choice, so the others are dealt in view of them.
  std::stable_sort(parts.begin(), parts.end(), [](const SharedPart& a, const SharedPart& b) {
    const bool a_is_single = a.holders.size() == 1;
    const bool b_is_single = b.holders.size() == 1;
    return a_is_single != b_is_single ? a_is_single : a.bytes > b.bytes;
  });
  // Bytes of each rank in its file of frozen tensors (true), and in the other one.
  std::map<bool, std::vector<std::int64_t>> loads;
  for (const bool frozen : {false, true}) loads[frozen].resize(static_cast<std::size_t>(ranks));
  for (SharedPart& each : parts) {
    std::vector<std::int64_t>& load = loads[plan[each.tensor].frozen];
    const auto load_of = [&](const Holder& holder) { return load[static_cast<std::size_t>(holder.rank)]; };
    const Holder& writer =
        *std::min_element(each.holders.begin(), each.holders.end(), [&](const Holder& a, const Holder& b) {
          return std::pair(load_of(a), a.rank) < std::pair(load_of(b), b.rank);
        });
    load[static_cast<std::size_t>(writer.rank)] += each.bytes;
    plan[each.tensor].pieces.push_back({writer.rank, shard_at(writer).slice(writer.buffer), std::move(each.part)});
  }
  for (CheckpointTensor& tensor : plan) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const CheckpointPiece& a, const CheckpointPiece& b) { return a.rank < b.rank; });
  }
}

}  // namespace

std::string state_name(std::string_view state, const std::string& parameter) {
  return "optimizer/" + std::string(state) + "/" + parameter;
}

std::vector<PersistentTensor> persistent_tensors(const Program& program) {
  std::vector<PersistentTensor> tensors;
  const auto add = [&](const std::string& name, BufferId buffer, const StoredParameter& parameter) {
    tensors.push_back({name, buffer, program.buffer(buffer).dtype, &parameter});
  };
  for (const StoredParameter& parameter : program.parameters) {
    if (parameter.role == ParameterRole::constant) continue;
    add(parameter.name, parameter.value, parameter);
    for (const auto& [state, buffer] : parameter.states) add(state_name(state, parameter.name), buffer, parameter);
  }
  return tensors;
}

std::vector<CheckpointTensor> plan_checkpoint(const RankPrograms& ranks) {
  std::map<std::string, std::vector<Holding>> tensors;
  std::set<std::string> frozen;
  std::set<const Program*> done;
  for (const Program* program : ranks.programs) {
    if (!done.insert(program).second) continue;
    std::vector<std::pair<int, Coordinates>> members;
    for (int rank = 0; rank < ranks.mesh.rank_count(); ++rank) {
      if (ranks.programs.at(static_cast<std::size_t>(rank)) == program) {
        members.emplace_back(rank, ranks.mesh.coordinates(rank));
      }
    }
    for (const PersistentTensor& tensor : persistent_tensors(*program)) {
      const TensorStorage storage = storage_of(*program, *tensor.parameter, tensor.buffer);
      Holding& holding = holding_of(tensors[tensor.name], storage, tensor.dtype);
      if (is_frozen(tensor)) frozen.insert(tensor.name);
      for (const auto& [rank, coordinates] : members) {
        add(holding, coordinates, {rank, program, tensor.parameter, tensor.buffer});
      }
    }
  }
  std::vector<CheckpointTensor> plan;
  plan.reserve(tensors.size());
  std::vector<SharedPart> parts;
  for (auto& [name, holdings] : tensors) {
    CheckpointTensor& tensor = plan.emplace_back();
    tensor.name = name;
    tensor.frozen = frozen.contains(name);
    for (SharedPart& each : shared_parts(plan.size() - 1, tensor, holdings)) parts.push_back(std::move(each));
  }
  deal(std::move(parts), ranks.mesh.rank_count(), plan);
  return plan;
}

std::uint64_t checkpoint_bytes(const std::vector<CheckpointTensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0}, [](std::uint64_t sum, const auto& tensor) {
    return sum + static_cast<std::uint64_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
  });
}

std::uint64_t frozen_bytes(const std::vector<CheckpointTensor>& tensors) {
  std::vector<CheckpointTensor> frozen;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(frozen),
               [](const CheckpointTensor& tensor) { return tensor.frozen; });
  return checkpoint_bytes(frozen);
}

}  // namespace strata::host
