#include "compiler/parameters/update.hpp"

#include <iterator>
#include <optional>
#include <utility>

#include "compiler/parameters/bucket_collectives.hpp"
#include "compiler/parameters/staged_bucket.hpp"

namespace strata::host {
namespace {

Instruction optimizer_op(const Bucket& bucket, std::vector<BufferId> updated, BufferId scale,
                         const OptimizerSettings& optimizer) {
  Attributes attributes{{"weight_decay", optimizer.weight_decay}, {"decay_elements", bucket.decay_elements}};
  std::string op = "sgd_update";
  if (optimizer.kind == OptimizerSettings::Kind::adamw) {
    op = "adamw_update";
    attributes.set("beta1", optimizer.beta1);
    attributes.set("beta2", optimizer.beta2);
    attributes.set("epsilon", optimizer.epsilon);
  } else {
    attributes.set("momentum", optimizer.momentum);
  }
  Instruction instruction = program_op(std::move(op), "update " + bucket.name, {bucket.completed.front(), scale},
                                       std::move(updated), std::move(attributes));
  ShardedDim flat{"flat", bucket.elements, {}, false};
  if (bucket.pieces > 1) {
    for (const Axis& axis : bucket.storage.axes) flat.axes.push_back({axis, Distribution::block});
  }
  instruction.iteration = {flat};
  return instruction;
}

Instruction broadcast(ProgramBuilder& builder, BufferId buffer, const Axis& axis, const std::string& label) {
  Instruction instruction;
  instruction.kind = InstructionKind::collective;
  instruction.collective = CollectiveKind::broadcast;
  instruction.name = label + " broadcast " + axis;
  instruction.inputs = {buffer};
  instruction.outputs = {buffer};
  instruction.axes = {axis};
  instruction.id = builder.communication_id(instruction.name);
  return instruction;
}

/// Every rank holds the values whole, and updates its piece of them.
bool updates_piece_of_whole(const Bucket& bucket) { return bucket.pieces > 1 && !bucket.gathers_values(); }

void emit_update(ProgramBuilder& builder, const Bucket& bucket, const StagedBucket& staged, BufferId scale,
                 const OptimizerSettings& optimizer, std::vector<Instruction>& instructions) {
  std::vector<BufferId> updated{staged.on_device(bucket.values)};
  if (updates_piece_of_whole(bucket)) {
    updated.front() = slice_piece(builder, bucket.values, bucket.storage.axes, bucket.name, instructions);
  }
  for (const BufferId state : bucket.states) updated.push_back(staged.on_device(state));
  instructions.push_back(optimizer_op(bucket, updated, scale, optimizer));
  if (updates_piece_of_whole(bucket)) {
    gather_into(builder, updated.front(), bucket.values, bucket.storage.axes, bucket.name, instructions);
  }
}

}  // namespace

void emit_updates(ProgramBuilder& builder, const std::vector<Bucket>& buckets, BufferId scale,
                  const OptimizerSettings& optimizer, std::vector<Instruction>& epilogue) {
  std::vector<StagedBucket> staged;
  for (const Bucket& bucket : buckets) staged.emplace_back(builder, bucket);
  std::vector<Instruction> updates;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::vector<BufferId> gone = i < 2 ? std::vector<BufferId>{} : staged[i - 2].copies();
    if (i + 1 < buckets.size()) staged[i + 1].fetch(gone, updates);
    emit_update(builder, buckets[i], staged[i], scale, optimizer, updates);
    staged[i].store(updates);
  }
  // The first one comes while gradients and their norm are completed.
  std::vector<Instruction> first;
  if (!staged.empty()) staged.front().fetch({}, first);
  epilogue.insert(epilogue.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  epilogue.insert(epilogue.end(), std::make_move_iterator(updates.begin()), std::make_move_iterator(updates.end()));
}

void share_what_one_rank_updates(ProgramBuilder& builder, const std::vector<Bucket>& buckets, BufferId norm,
                                 std::vector<Instruction>& instructions) {
  std::optional<Axis> axis;
  for (const Bucket& bucket : buckets) {
    if (!bucket.storage.single_writer) continue;
    axis = bucket.storage.axes.front();
    instructions.push_back(broadcast(builder, bucket.values, *axis, bucket.name));
  }
  if (axis) instructions.push_back(broadcast(builder, norm, *axis, "gradient norm"));
}

}  // namespace strata::host
