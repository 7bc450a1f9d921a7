#include "checkpoint/checkpoint_plan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "checkpoint/tensor_cover.hpp"
#include "compiler/program/folded_mesh.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// A tensor on all ranks that store it in the same way.
struct Holding {
  TensorStorage storage;
  DType dtype = DType::f32;
  std::vector<TensorHolder> holders;
};

Holding& holding_of(std::vector<Holding>& holdings, const TensorStorage& storage, DType dtype) {
  const auto found = std::ranges::find_if(
      holdings, [&](const Holding& each) { return each.dtype == dtype && each.storage == storage; });
  if (found != holdings.end()) return *found;
  return holdings.emplace_back(Holding{storage, dtype, {}});
}

/// True for a value that no step changes. Replicas that train apart average all their values.
bool is_frozen(const PersistentTensor& tensor) {
  const StoredParameter& parameter = *tensor.parameter;
  return parameter.role == ParameterRole::frozen && parameter.unsynchronized.empty() && tensor.name == parameter.name;
}

const TensorHolder* find_holder(const std::vector<TensorHolder>& holders, const Program* program) {
  const auto found = std::ranges::find(holders, program, &TensorHolder::program);
  return found == holders.end() ? nullptr : &*found;
}

Shard shard_at(const TensorHolder& holder, int rank) {
  return shard_of(*holder.program, *holder.parameter, holder.buffer, rank);
}

/// Each part of the tensor, from the first rank that holds it. Visits all ranks.
std::vector<TensorPart> parts_of(const Holding& holding, const RankPrograms& ranks) {
  const AxisSet axes = shard_axes(holding.storage);
  std::map<std::vector<int>, TensorPart> parts;
  for (int rank = 0; rank < ranks.mesh.rank_count(); ++rank) {
    const TensorHolder* holder = find_holder(holding.holders, ranks.programs[static_cast<std::size_t>(rank)]);
    if (holder == nullptr) continue;
    std::vector<int> place;
    const Coordinates at = ranks.mesh.coordinates(rank);
    for (const Axis& axis : axes) place.push_back(at.at(axis));
    if (!parts.contains(place)) parts.emplace(std::move(place), shard_at(*holder, rank).part());
  }
  std::vector<TensorPart> all;
  for (auto& [place, part] : parts) {
    if (part.elements() > 0) all.push_back(std::move(part));
  }
  return all;
}

/// Ranks that together hold a tensor once.
using Replica = std::vector<int>;

/// Deals tensors to replicas. Its mesh is the ranks' one, with fewer ranks along some axes: one along an axis that
/// shards every tensor, because what is dealt to one of these ranks is dealt to all of them, and not more than there
/// are tensors along any other one.
class Dealer {
 public:
  Dealer(const RankPrograms& ranks, const AxisSet& common, std::size_t tensors) {
    const Mesh folded = folded_mesh(ranks.mesh, ranks.programs, {});
    std::vector<MeshAxis> axes = ranks.mesh.axes();
    for (MeshAxis& axis : axes) {
      const std::size_t most = common.contains(axis.name) ? 1 : std::max<std::size_t>(tensors, 1);
      const int least = folded.size(axis.name);
      if (static_cast<std::size_t>(axis.size) > most) axis.size = std::max(least, static_cast<int>(most));
    }
    mesh_ = Mesh(std::move(axes));
    programs_ = folded_labels(mesh_, ranks.mesh, ranks.programs);
    for (auto& load : loads_) load.resize(programs_.size());
  }

  /// The replicas of a tensor, by their first ranks.
  const std::vector<Replica>& replicas(const Holding& holding) {
    std::set<const Program*> programs;
    for (const TensorHolder& each : holding.holders) programs.insert(each.program);
    const AxisSet axes = shard_axes(holding.storage);
    const auto [place, added] = replicas_.try_emplace({axes, programs});
    if (added) place->second = find_replicas(axes, programs);
    return place->second;
  }

  /// Chooses the replica that writes a tensor. `bytes`: of a part. \return its first rank's coordinates.
  Coordinates deal(const std::vector<Replica>& replicas, std::int64_t bytes, bool frozen) {
    std::vector<std::int64_t>& load = loads_[frozen ? 1 : 0];
    const auto load_of = [&](const Replica& replica) {
      std::int64_t largest = 0;
      for (const int rank : replica) largest = std::max(largest, load[static_cast<std::size_t>(rank)]);
      return largest;
    };
    const Replica* chosen = &replicas.front();
    std::int64_t least = load_of(*chosen);
    for (const Replica& each : replicas) {
      const std::int64_t own = load_of(each);
      if (own >= least) continue;
      least = own;
      chosen = &each;
    }
    for (const int rank : *chosen) load[static_cast<std::size_t>(rank)] += bytes;
    return mesh_.coordinates(chosen->front());
  }

 private:
  [[nodiscard]] std::vector<Replica> find_replicas(const AxisSet& axes,
                                                   const std::set<const Program*>& programs) const {
    std::vector<AxisCoordinate> shards;
    std::size_t parts = 1;
    for (const Axis& axis : axes) {
      shards.emplace_back(mesh_, axis);
      parts *= static_cast<std::size_t>(mesh_.size(axis));
    }
    std::map<int, Replica> by_first;
    for (int rank = 0; rank < mesh_.rank_count(); ++rank) {
      if (!programs.contains(programs_[static_cast<std::size_t>(rank)])) continue;
      int first = rank;
      for (const AxisCoordinate& coordinate : shards) first -= coordinate(rank) * coordinate.stride();
      by_first[first].push_back(rank);
    }
    std::vector<Replica> replicas;
    for (auto& [first, replica] : by_first) {
      if (replica.size() == parts) replicas.push_back(std::move(replica));
    }
    return replicas;
  }

  Mesh mesh_;
  std::vector<const Program*> programs_;
  std::map<std::pair<AxisSet, std::set<const Program*>>, std::vector<Replica>> replicas_;
  /// Bytes of each rank in its file of tensors that change, and in the one of frozen tensors.
  std::array<std::vector<std::int64_t>, 2> loads_;
};

using Holdings = std::map<std::string, std::vector<Holding>>;

/// Chooses how each tensor is written, and by which ranks.
class Planner {
 public:
  Planner(const RankPrograms& ranks, Holdings holdings, std::size_t most_tensors)
      : ranks_(ranks),
        holdings_(std::move(holdings)),
        cover_(ranks.mesh),
        dealer_(ranks, common_axes(), most_tensors) {}

  std::vector<CheckpointTensor> run(const std::set<std::string>& frozen) {
    std::vector<CheckpointTensor> plan;
    std::vector<Part> parts;
    for (auto& [name, holdings] : holdings_) {
      Holding& holding = whole_holding(name, holdings);
      CheckpointTensor& tensor = plan.emplace_back();
      tensor.name = name;
      tensor.dtype = holding.dtype;
      for (const ShardedDim& dim : holding.storage.dims) tensor.shape.push_back(dim.global_size);
      tensor.frozen = frozen.contains(name);
      const AxisSet axes = shard_axes(holding.storage);
      const std::int64_t count = ranks_.mesh.size(std::vector<Axis>(axes.begin(), axes.end()));
      const std::int64_t bytes = element_count(tensor.shape) * static_cast<std::int64_t>(size_of(tensor.dtype));
      Part& part = part_of(holding, tensor.frozen, parts);
      part.tensors.push_back(plan.size() - 1);
      part.bytes += (bytes + count - 1) / count;
      tensor.storage = std::move(holding.storage);
      tensor.holders = std::move(holding.holders);
    }
    deal(std::move(parts), plan);
    return plan;
  }

 private:
  using BucketKey = std::tuple<const Program*, BufferId, const std::vector<Replica>*, bool>;
  /// Tensors that one replica writes.
  struct Part {
    std::vector<std::size_t> tensors;
    const std::vector<Replica>* replicas = nullptr;
    /// What each rank writes of them, on average.
    std::int64_t bytes = 0;
  };

  /// Tensors in one sharded bucket are dealt together, because a rank's piece of it may have parts of few of them.
  Part& part_of(const Holding& holding, bool frozen, std::vector<Part>& parts) {
    const std::vector<Replica>* replicas = &dealer_.replicas(holding);
    const TensorHolder& first = holding.holders.front();
    const BucketKey key{first.program, first.program->root(first.buffer), replicas, frozen};
    if (holding.storage.bucket) {
      const auto [number, added] = buckets_.try_emplace(key, parts.size());
      if (!added) return parts[number->second];
    }
    return parts.emplace_back(Part{{}, replicas, 0});
  }

  /// Axes that shard every tensor.
  [[nodiscard]] AxisSet common_axes() const {
    AxisSet common;
    for (const MeshAxis& axis : ranks_.mesh.axes()) common.insert(axis.name);
    for (const auto& [name, holdings] : holdings_) {
      for (const Holding& holding : holdings) {
        const AxisSet axes = shard_axes(holding.storage);
        std::erase_if(common, [&](const Axis& axis) { return !axes.contains(axis); });
      }
    }
    return common;
  }

  /// The first way of storing a tensor in which its parts make it whole.
  Holding& whole_holding(const std::string& name, std::vector<Holding>& holdings) {
    for (Holding& holding : holdings) {
      for (const TensorHolder& holder : holding.holders) require_storage(holder);
      if (cover_.is_whole(holding.storage) && !dealer_.replicas(holding).empty()) return holding;
    }
    const std::vector<TensorPart> parts = parts_of(holdings.front(), ranks_);
    Shape shape;
    for (const ShardedDim& dim : holdings.front().storage.dims) shape.push_back(dim.global_size);
    throw VerificationError("the ranks' parts of '" + name + "' do not make it whole: " +
                            find_cover_fault(shape, parts).value_or("no replica holds all of them"));
  }

  /// \throws VerificationError if the holder's buffer cannot hold the parts of its ranks, which are equally large.
  void require_storage(const TensorHolder& holder) const {
    const auto first = std::ranges::find(ranks_.programs, holder.program);
    static_cast<void>(shard_at(holder, static_cast<int>(first - ranks_.programs.begin())));
  }

  void deal(std::vector<Part> parts, std::vector<CheckpointTensor>& plan) {
    // Tensors of a single replica leave no choice, so the others are dealt in view of them.
    std::ranges::stable_sort(parts, [](const Part& a, const Part& b) {
      const bool a_is_single = a.replicas->size() == 1;
      const bool b_is_single = b.replicas->size() == 1;
      return a_is_single != b_is_single ? a_is_single : a.bytes > b.bytes;
    });
    for (const Part& each : parts) {
      const Coordinates writers = dealer_.deal(*each.replicas, each.bytes, plan[each.tensors.front()].frozen);
      for (const std::size_t number : each.tensors) {
        CheckpointTensor& tensor = plan[number];
        tensor.writers = writers;
        for (const Axis& axis : shard_axes(tensor.storage)) tensor.writers.erase(axis);
      }
    }
  }

  const RankPrograms& ranks_;
  Holdings holdings_;
  StorageCover cover_;
  Dealer dealer_;
  /// Numbers of the parts in sharded buckets.
  std::map<BucketKey, std::size_t> buckets_;
};

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

CheckpointPlan::CheckpointPlan(RankPrograms ranks) : ranks_(std::move(ranks)) {
  const Mesh folded = folded_mesh(ranks_.mesh, ranks_.programs, {});
  Holdings holdings;
  std::set<std::string> frozen;
  std::set<const Program*> done;
  std::size_t most_tensors = 0;
  for (const Program* program : folded_labels(folded, ranks_.mesh, ranks_.programs)) {
    if (!done.insert(program).second) continue;
    const std::vector<PersistentTensor> tensors = persistent_tensors(*program);
    most_tensors = std::max(most_tensors, tensors.size());
    for (const PersistentTensor& tensor : tensors) {
      const TensorStorage storage = storage_of(*program, *tensor.parameter, tensor.buffer);
      Holding& holding = holding_of(holdings[tensor.name], storage, tensor.dtype);
      if (find_holder(holding.holders, program) != nullptr) {
        throw VerificationError("a program holds '" + tensor.name + "' twice");
      }
      holding.holders.push_back({program, tensor.parameter, tensor.buffer});
      if (is_frozen(tensor)) frozen.insert(tensor.name);
    }
  }
  tensors_ = Planner(ranks_, std::move(holdings), most_tensors).run(frozen);
}

std::optional<CheckpointPiece> CheckpointPlan::piece(const CheckpointTensor& tensor, int rank) const {
  const bool writes = std::ranges::all_of(
      tensor.writers, [&](const auto& each) { return AxisCoordinate(ranks_.mesh, each.first)(rank) == each.second; });
  if (!writes) return std::nullopt;
  const TensorHolder* holder = find_holder(tensor.holders, ranks_.programs.at(static_cast<std::size_t>(rank)));
  if (holder == nullptr) return std::nullopt;
  const Shard shard = shard_at(*holder, rank);
  if (shard.local_elements() == 0) return std::nullopt;
  return CheckpointPiece{rank, shard.slice(holder->buffer), shard.part()};
}

std::vector<CheckpointPiece> CheckpointPlan::pieces(const CheckpointTensor& tensor) const {
  std::vector<CheckpointPiece> pieces;
  for (const int rank : ranks_at(ranks_.mesh, tensor.writers)) {
    if (auto own = piece(tensor, rank)) pieces.push_back(std::move(*own));
  }
  return pieces;
}

}  // namespace strata::host
