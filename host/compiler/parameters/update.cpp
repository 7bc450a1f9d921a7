#include "compiler/parameters/update.hpp"

#include <iterator>
#include <optional>
#include <utility>

#include "compiler/parameters/staged_bucket.hpp"
#include "compiler/placement/bucket_collectives.hpp"

namespace strata::host {
namespace {

Instruction optimizer_op(const TrainedBucket& trained, std::vector<BufferId> updated, BufferId scale,
                         const OptimizerSettings& optimizer) {
  const Bucket& bucket = trained.bucket;
  Attributes attributes = optimizer.attributes;
  attributes.set("decay_elements", bucket.decay_elements);
  Instruction instruction =
      flat_op(optimizer.op, "update " + bucket.name, {trained.completion.completed.front(), scale}, std::move(updated),
              std::move(attributes));
  ShardedDim flat{"flat", bucket.elements, {}, false};
  if (bucket.pieces > 1) {
    for (const Axis& axis : bucket.storage.axes) flat.axes.push_back({axis, Distribution::block});
  }
  instruction.as<Compute>()->iteration = {flat};
  return instruction;
}

Instruction broadcast(ProgramBuilder& builder, BufferId buffer, const Axis& axis, const std::string& label) {
  return builder.collective({.kind = CollectiveKind::broadcast, .axes = {axis}}, buffer, buffer,
                            label + " broadcast " + axis);
}

/// True if every rank holds the whole values but updates only its piece (ZeRO-1, ZeRO-2).
bool updates_piece_of_whole(const Bucket& bucket) { return bucket.pieces > 1 && !bucket.gathers_values(); }

void emit_update(ProgramBuilder& builder, const TrainedBucket& trained, const StagedBucket& staged, BufferId scale,
                 const OptimizerSettings& optimizer, std::vector<Instruction>& instructions) {
  const Bucket& bucket = trained.bucket;
  std::vector<BufferId> updated{staged.on_device(bucket.values)};
  if (updates_piece_of_whole(bucket)) {
    updated.front() = slice_piece(builder, bucket.values, bucket.storage.axes, bucket.name, instructions);
  }
  for (const BufferId state : trained.states) updated.push_back(staged.on_device(state));
  instructions.push_back(optimizer_op(trained, updated, scale, optimizer));
  if (updates_piece_of_whole(bucket)) {
    gather_into(builder, updated.front(), bucket.values, bucket.storage.axes, bucket.name, instructions);
  }
}

}  // namespace

void emit_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets, BufferId scale,
                  const OptimizerSettings& optimizer, std::vector<Instruction>& epilogue) {
  std::vector<StagedBucket> staged;
  for (const TrainedBucket& each : buckets) staged.emplace_back(builder, each.bucket, each.states);
  std::vector<Instruction> updates;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::vector<BufferId> gone = i < 2 ? std::vector<BufferId>{} : staged[i - 2].copies();
    if (i + 1 < buckets.size()) staged[i + 1].fetch(gone, updates);
    emit_update(builder, buckets[i], staged[i], scale, optimizer, updates);
    staged[i].store(updates);
  }
  // Fetching the first bucket overlaps with the completion of gradients and their norm.
  std::vector<Instruction> first;
  if (!staged.empty()) staged.front().fetch({}, first);
  epilogue.insert(epilogue.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  epilogue.insert(epilogue.end(), std::make_move_iterator(updates.begin()), std::make_move_iterator(updates.end()));
}

void broadcast_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets, BufferId norm,
                       std::vector<Instruction>& instructions) {
  std::optional<Axis> axis;
  for (const TrainedBucket& each : buckets) {
    if (!each.bucket.storage.single_writer) continue;
    axis = each.bucket.storage.axes.front();
    instructions.push_back(broadcast(builder, each.bucket.values, *axis, each.bucket.name));
  }
  if (axis) instructions.push_back(broadcast(builder, norm, *axis, "gradient norm"));
}

}  // namespace strata::host
