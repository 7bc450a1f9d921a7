#include "checkpoint/checkpoint_plan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

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

/// Host memory of a rank that copies a few bytes at a time.
constexpr std::int64_t kSmallCopy = 32 << 20;
/// Larger than the elements of any type.
constexpr std::int64_t kCopyAlignment = 64;

bool belongs(const CheckpointTensor& tensor, RankFile file) { return tensor.frozen == (file == RankFile::frozen); }

std::int64_t copy_bytes(std::int64_t bytes, bool whole) {
  const std::int64_t aligned = (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  return whole ? aligned : std::min(aligned, kSmallCopy);
}

using Parts = std::vector<const TensorPart*>;

/// Groups parts with equal blocks, sorted by their elements.
std::vector<Parts> by_block(const std::vector<TensorPart>& parts) {
  std::vector<Parts> groups;
  for (const TensorPart& part : parts) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Parts& group) { return group.front()->dims == part.dims; });
    if (same == groups.end()) {
      groups.push_back({&part});
    } else {
      same->push_back(&part);
    }
  }
  for (Parts& group : groups) {
    std::sort(group.begin(), group.end(), [](const TensorPart* a, const TensorPart* b) { return a->begin < b->begin; });
  }
  return groups;
}

bool meet(const IndexMap& a, const IndexMap& b) {
  return std::any_of(a.segments.begin(), a.segments.end(), [&](const IndexSegment& x) {
    return std::any_of(b.segments.begin(), b.segments.end(), [&](const IndexSegment& y) {
      return x.global_begin < y.global_begin + y.length && y.global_begin < x.global_begin + x.length;
    });
  });
}

bool meet(const std::vector<IndexMap>& a, const std::vector<IndexMap>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const IndexMap& x, const IndexMap& y) { return meet(x, y); });
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

std::string file_stem(int rank, RankFile file) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%s-%05d", file == RankFile::frozen ? "frozen" : "rank", rank);
  return name.data();
}

std::vector<RankPiece> rank_pieces(const std::vector<CheckpointTensor>& plan, int rank, RankFile file) {
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, BufferSlice> sources;
  for (const CheckpointTensor& tensor : plan) {
    if (!belongs(tensor, file)) continue;
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.rank != rank) continue;
      if (!sources.emplace(tensor.name, piece.source).second) {
        throw VerificationError("rank " + std::to_string(rank) + " holds two parts of '" + tensor.name + "'");
      }
      tensors.push_back({tensor.name, tensor.dtype, piece.part.shape()});
    }
  }
  sort_for_safetensors(tensors);
  std::vector<RankPiece> pieces;
  pieces.reserve(tensors.size());
  for (SafetensorsTensor& tensor : tensors) {
    const BufferSlice source = sources.at(tensor.name);
    pieces.push_back({std::move(tensor), source});
  }
  return pieces;
}

std::vector<std::int64_t> bytes_by_rank(const std::vector<CheckpointTensor>& plan, int ranks, RankFile file) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks));
  for (const CheckpointTensor& tensor : plan) {
    if (!belongs(tensor, file)) continue;
    for (const CheckpointPiece& piece : tensor.pieces) {
      bytes.at(static_cast<std::size_t>(piece.rank)) +=
          piece.part.elements() * static_cast<std::int64_t>(size_of(tensor.dtype));
    }
  }
  return bytes;
}

std::vector<CopyBytes> planned_copies(const std::vector<CheckpointTensor>& plan, int ranks, bool whole) {
  const std::vector<std::int64_t> changing = bytes_by_rank(plan, ranks, RankFile::changing);
  const std::vector<std::int64_t> frozen = bytes_by_rank(plan, ranks, RankFile::frozen);
  std::vector<CopyBytes> copies;
  for (std::size_t rank = 0; rank < changing.size(); ++rank) {
    copies.push_back({copy_bytes(changing[rank], whole), copy_bytes(frozen[rank], false)});
  }
  return copies;
}

std::vector<std::int64_t> planned_copy_bytes(const std::vector<CopyBytes>& copies) {
  std::vector<std::int64_t> bytes;
  bytes.reserve(copies.size());
  for (const CopyBytes& each : copies) bytes.push_back(each.changing + each.frozen);
  return bytes;
}

std::optional<std::string> find_cover_fault(const Shape& shape, const std::vector<TensorPart>& parts) {
  const std::vector<Parts> groups = by_block(parts);
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::int64_t end = 0;
    for (const TensorPart* part : groups[i]) {
      if (part->begin < end) {
        return "element " + std::to_string(part->begin) + " of a block is in two of them";
      }
      end = part->end;
      covered += part->elements();
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (meet(groups[i].front()->dims, groups[j].front()->dims)) return "two blocks overlap";
    }
  }
  if (covered == element_count(shape)) return std::nullopt;
  return "they have " + std::to_string(covered) + " of " + std::to_string(element_count(shape)) + " elements";
}

}  // namespace strata::host
