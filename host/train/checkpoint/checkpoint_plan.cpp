#include "train/checkpoint/checkpoint_plan.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "runtime/shards.hpp"
#include "strata/error.hpp"
#include "train/checkpoint/part_cover.hpp"

namespace strata::host {
namespace {

/// The pieces of a tensor on all ranks that store it in the same way.
struct Holding {
  TensorStorage storage;
  DType dtype = DType::f32;
  Shape shape;
  AxisSet axes;
  /// Coordinates along `axes` of the pieces that are known already.
  std::set<std::vector<int>> known;
  std::vector<CheckpointPiece> pieces;
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

/// Adds the part that `rank` holds, unless an earlier rank holds the same part.
void add(Holding& holding, const Program& program, const PersistentTensor& tensor, int rank,
         const Coordinates& coordinates) {
  std::vector<int> place;
  for (const Axis& axis : holding.axes) place.push_back(coordinates.at(axis));
  if (!holding.known.insert(std::move(place)).second) return;
  const Shard shard = shard_of(program, *tensor.parameter, tensor.buffer, rank);
  if (shard.local_elements() > 0) holding.pieces.push_back({rank, shard.slice(tensor.buffer), shard.part()});
}

CheckpointTensor whole_tensor(const std::string& name, std::vector<Holding>& holdings) {
  std::optional<std::string> first_fault;
  for (Holding& holding : holdings) {
    std::vector<TensorPart> parts;
    for (const CheckpointPiece& piece : holding.pieces) parts.push_back(piece.part);
    const std::optional<std::string> fault = find_cover_fault(holding.shape, parts);
    if (!fault) return {name, holding.dtype, holding.shape, std::move(holding.pieces)};
    if (!first_fault) first_fault = fault;
  }
  throw VerificationError("the ranks' parts of '" + name + "' do not make it whole: " + first_fault.value_or("none"));
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
      for (const auto& [rank, coordinates] : members) add(holding, *program, tensor, rank, coordinates);
    }
  }
  std::vector<CheckpointTensor> plan;
  plan.reserve(tensors.size());
  for (auto& [name, holdings] : tensors) plan.push_back(whole_tensor(name, holdings));
  return plan;
}

std::uint64_t checkpoint_bytes(const std::vector<CheckpointTensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const CheckpointTensor& tensor : tensors) {
    bytes += static_cast<std::uint64_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
  }
  return bytes;
}

}  // namespace strata::host
