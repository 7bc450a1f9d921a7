#include "train/checkpoint_plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// True if `rank` is the first of those that hold its part: at 0 along every axis that does not shard the tensor.
bool is_first_holder(const PersistentTensor& tensor, const Mesh& mesh, int rank) {
  std::set<Axis> sharding;
  for (const ShardedDim& dim : tensor.dims) {
    for (const AxisShard& shard : dim.axes) sharding.insert(shard.axis);
  }
  const Coordinates coordinates = mesh.coordinates(rank);
  return std::all_of(coordinates.begin(), coordinates.end(),
                     [&](const auto& each) { return each.second == 0 || sharding.contains(each.first); });
}

void add_piece(CheckpointTensor& tensor, CheckpointPiece piece) {
  // A parameter that several programs hold, such as tied weights on two pipeline stages, is written once.
  const bool known = std::any_of(tensor.pieces.begin(), tensor.pieces.end(),
                                 [&](const CheckpointPiece& each) { return each.dims == piece.dims; });
  if (!known) tensor.pieces.push_back(std::move(piece));
}

void require_whole(const CheckpointTensor& tensor) {
  std::int64_t covered = 0;
  for (const CheckpointPiece& piece : tensor.pieces) covered += element_count(local_shape(piece.dims));
  if (covered == element_count(tensor.shape)) return;
  throw VerificationError("the ranks' parts of '" + tensor.name + "' have " + std::to_string(covered) +
                          " elements of " + std::to_string(element_count(tensor.shape)));
}

}  // namespace

std::vector<PersistentTensor> persistent_tensors(const Program& program) {
  std::vector<PersistentTensor> tensors;
  const auto add = [&](const std::string& name, BufferId buffer, const StoredParameter& parameter) {
    tensors.push_back({name, buffer, program.buffer(buffer).dtype, parameter.dims});
  };
  for (const StoredParameter& parameter : program.parameters) {
    add(parameter.name, parameter.value, parameter);
    for (const auto& [state, buffer] : parameter.states)
      add("optimizer/" + state + "/" + parameter.name, buffer, parameter);
  }
  return tensors;
}

std::vector<IndexMap> index_maps(const PersistentTensor& tensor, const Mesh& mesh, int rank) {
  const Coordinates coordinates = mesh.coordinates(rank);
  std::vector<IndexMap> maps;
  maps.reserve(tensor.dims.size());
  for (const ShardedDim& dim : tensor.dims) maps.push_back(index_map(dim, mesh, coordinates));
  return maps;
}

Shape local_shape(const std::vector<IndexMap>& dims) {
  Shape shape;
  shape.reserve(dims.size());
  for (const IndexMap& dim : dims) shape.push_back(dim.local_size());
  return shape;
}

std::vector<CheckpointTensor> plan_checkpoint(const RankPrograms& ranks) {
  std::map<std::string, CheckpointTensor> tensors;
  for (int rank = 0; rank < ranks.mesh.rank_count(); ++rank) {
    for (const PersistentTensor& each : persistent_tensors(*ranks.programs.at(static_cast<std::size_t>(rank)))) {
      if (!is_first_holder(each, ranks.mesh, rank)) continue;
      CheckpointTensor& tensor = tensors[each.name];
      if (tensor.pieces.empty()) {
        tensor.name = each.name;
        tensor.dtype = each.dtype;
        for (const ShardedDim& dim : each.dims) tensor.shape.push_back(dim.global_size);
      }
      add_piece(tensor, {rank, each.buffer, index_maps(each, ranks.mesh, rank)});
    }
  }
  std::vector<CheckpointTensor> plan;
  plan.reserve(tensors.size());
  for (auto& [name, tensor] : tensors) {
    require_whole(tensor);
    plan.push_back(std::move(tensor));
  }
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
