#include <algorithm>
#include <utility>

#include "compiler/program/buffer_ranges.hpp"
#include "runtime/element.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"
#include "verify/definition.hpp"

namespace strata::host {
namespace {

/// The sequences of a micro-batch and their sharding, as the program loads its targets.
const ShardedDim& batch_of(const Program& program) {
  for (const Task& task : program.tasks) {
    for (const Instruction& instruction : task.instructions) {
      const auto* load = instruction.as<LoadInput>();
      if (load == nullptr) continue;
      const auto batch = std::ranges::find_if(load->dims, [](const ShardedDim& dim) { return dim.per_micro_batch; });
      if (batch != load->dims.end()) return *batch;
    }
  }
  throw VerificationError("program '" + program.name + "' loads no samples");
}

/// The coordinates of a rank along the axes of `parts`.
Coordinates along(const Mesh& parts, const Coordinates& rank) {
  Coordinates result;
  for (const MeshAxis& axis : parts.axes()) result[axis.name] = rank.at(axis.name);
  return result;
}

std::vector<int> assign_samples(const Compiled& compiled, const Mesh& parts) {
  // The first stage loads tokens, so every rank of it has a batch.
  const ShardedDim& batch = batch_of(compiled.program(0));
  const int micro_batches = compiled.program(0).micro_batches;
  std::vector<int> part_of(static_cast<std::size_t>(batch.global_size * micro_batches), 0);
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) {
    const Coordinates at = compiled.mesh.coordinates(rank);
    const int part = parts.rank(along(parts, at));
    for (const IndexSegment& segment : index_map(batch, compiled.mesh, at).segments) {
      for (std::int64_t i = 0; i < segment.length * micro_batches; ++i) {
        const std::int64_t sample = i / segment.length * batch.global_size + segment.global_begin + i % segment.length;
        part_of[static_cast<std::size_t>(sample)] = part;
      }
    }
  }
  return part_of;
}

/// The pieces in which the ranks of `program` store a parameter.
std::vector<DefinedPiece> pieces_of(const Compiled& compiled, const Program& program,
                                    const StoredParameter& parameter) {
  const TensorStorage storage{parameter.dims, parameter.sharding};
  const AxisSet axes = shard_axes(storage);
  std::set<std::vector<int>> known;
  std::vector<DefinedPiece> pieces;
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) {
    if (&compiled.program(rank) != &program) continue;
    const Coordinates coordinates = compiled.mesh.coordinates(rank);
    std::vector<int> place;
    for (const Axis& axis : axes) place.push_back(coordinates.at(axis));
    if (!known.insert(std::move(place)).second) continue;
    const Shard shard(storage, compiled.mesh, rank);
    DefinedPiece piece{.elements = {}, .size = shard.buffer_elements()};
    for_each_run(shard.part(), [&](std::int64_t /*local*/, std::int64_t global, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) piece.elements.push_back(global + i);
    });
    if (!piece.elements.empty()) pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::map<std::string, std::vector<DefinedPiece>> find_pieces(const Compiled& compiled) {
  std::map<std::string, std::vector<DefinedPiece>> pieces;
  for (const Program& program : compiled.programs) {
    for (const StoredParameter& parameter : program.parameters) {
      if (parameter.role != ParameterRole::trained || pieces.contains(parameter.name)) continue;
      pieces[parameter.name] = pieces_of(compiled, program, parameter);
    }
  }
  return pieces;
}

}  // namespace

int SimulatedReplicas::part(int replica, int worker) const {
  Coordinates at = mesh.coordinates(replica);
  at.merge(workers.coordinates(worker));
  return parts.rank(at);
}

SimulatedReplicas find_replicas(const Stack& stack, const Compiled& compiled, const std::vector<DatasetInput>& inputs) {
  SimulatedReplicas replicas;
  for (const DatasetInput& input : inputs) {
    if (input.is_target) replicas.targets.insert(input.name);
  }
  std::vector<MeshAxis> unsynchronized;
  std::vector<MeshAxis> reduced;
  std::vector<MeshAxis> both;
  for (const MeshAxis& axis : stack.mesh.axes()) {
    const bool is_unsynchronized = stack.unsynchronized.contains(axis.name);
    const bool is_reduced = contains(stack.reduced, axis.name);
    if (is_unsynchronized) unsynchronized.push_back(axis);
    if (is_reduced) reduced.push_back(axis);
    if (is_unsynchronized || is_reduced) both.push_back(axis);
  }
  replicas.mesh = Mesh(std::move(unsynchronized));
  replicas.workers = Mesh(std::move(reduced));
  replicas.parts = Mesh(std::move(both));
  replicas.reducer = stack.reducer;
  if (stack.reducer >= 0) replicas.pieces = find_pieces(compiled);
  replicas.strategies = stack.strategies;
  replicas.unsynchronized_of = stack.unsynchronized_of;
  if (replicas.parts.rank_count() > 1) replicas.part_of_sample = assign_samples(compiled, replicas.parts);
  return replicas;
}

void ReplicaInputs::load(const InputPart& part, std::uint64_t step) {
  inputs_.load(part, step);
  if (!replicas_.targets.contains(part.name) || replicas_.part_of_sample.empty()) return;
  std::int64_t per_sample = 1;
  for (std::size_t i = 1; i < part.dims.size(); ++i) per_sample *= part.dims[i].local_size();
  for (const IndexSegment& segment : part.dims.front().segments) {
    for (std::int64_t i = 0; i < segment.length; ++i) {
      const auto sample = static_cast<std::size_t>(segment.global_begin + i);
      if (replicas_.part_of_sample.at(sample) == part_) continue;
      const std::int64_t begin = (segment.local_begin + i) * per_sample;
      for (std::int64_t k = 0; k < per_sample; ++k) store_element(part.dtype, part.destination, begin + k, -1);
    }
  }
}

void require_sums_of_targets(const Graph& graph, const SimulatedReplicas& replicas) {
  if (replicas.part_of_sample.empty()) return;
  std::set<int> readers;
  for (const Node& node : graph.nodes()) {
    const bool reads =
        std::ranges::any_of(node.operands, [&](const Value& operand) { return readers.contains(operand.node); });
    if (reads || (node.is_input() && replicas.targets.contains(node.name))) readers.insert(node.id);
  }
  for (const Sink& sink : graph.sinks) {
    const bool is_sum = sink.kind == Sink::Kind::loss || sink.kind == Sink::Kind::metric;
    if (!is_sum || readers.contains(sink.value.node)) continue;
    throw ConfigurationError(
        "the " + std::string(sink.kind == Sink::Kind::loss ? "loss" : "metric") + " '" +
        graph.node(sink.value.node).name +
        "' reads no targets, so it cannot be verified under strategies that keep replicas or their "
        "gradients apart, such as localsgd and compress; accepted: one whose op takes the targets, and counts no "
        "sample of negative ones");
  }
}

}  // namespace strata::host
