#include "compiler/parameters/update.hpp"

#include <iterator>
#include <optional>
#include <utility>

#include "compiler/parameters/staged_bucket.hpp"
#include "compiler/parameters/strategy_work.hpp"
#include "compiler/placement/bucket_collectives.hpp"
#include "strata/error.hpp"
#include "strata/optimizer.hpp"

namespace strata::host {
namespace {

/// Lets an optimizer emit the update of this rank's piece of one bucket.
class BucketUpdate final : public UpdateContext {
 public:
  /// `updated`: the values and the states, on the device.
  BucketUpdate(const TrainedBucket& trained, std::vector<BufferId> updated, BufferId scale,
               const UpdateRequest& request)
      : trained_(trained),
        updated_(std::move(updated)),
        scale_(scale),
        group_(request.optimizer.groups.at(static_cast<std::size_t>(trained.bucket.group))),
        clip_value_(request.optimizer.clip_value),
        registry_(request.registry) {}

  void update(const std::string& op, Attributes attributes) override {
    require_update_of_states(op, attributes);
    const Bucket& bucket = trained_.bucket;
    attributes.set(UpdateAttributes::kWeightDecay, group_.weight_decay);
    attributes.set(UpdateAttributes::kDecayElements, bucket.decay_elements);
    attributes.set(UpdateAttributes::kLearningRateFactor, group_.lr_factor);
    if (clip_value_ > 0) attributes.set(UpdateAttributes::kClipValue, clip_value_);
    Instruction instruction = flat_op(op, "update " + bucket.name, {trained_.completion.completed.front(), scale_},
                                      updated_, std::move(attributes));
    ShardedDim flat{"flat", bucket.elements, {}, false};
    if (bucket.pieces > 1) {
      for (const Axis& axis : bucket.storage.axes) flat.axes.push_back({axis, Distribution::block});
    }
    instruction.as<Compute>()->iteration = {flat};
    instructions_.push_back(std::move(instruction));
  }

  /// The instruction of the optimizer. \throws PluginError if there is none, or more than one.
  Instruction run() {
    call_plugin(group_.origin, "update", [&] { group_.optimizer->update(*this); });
    if (instructions_.size() == 1) return std::move(instructions_.front());
    throw PluginError(group_.origin, "", "",
                      "emits " + std::to_string(instructions_.size()) + " updates of a bucket; accepted: 1");
  }

 private:
  void require_update_of_states(const std::string& op, const Attributes& attributes) const {
    if (!registry_.has(op)) throw ConfigurationError("there is no op '" + op + "'");
    const auto signature = registry_.get(op).flat_signature(attributes);
    if (!signature || !signature->is_update) throw ConfigurationError("op '" + op + "' updates no parameters");
    const std::vector<std::string> states = group_.optimizer->states();
    if (signature->states == states) return;
    throw ConfigurationError("op '" + op + "' has the states [" + join(signature->states) + "], the optimizer names [" +
                             join(states) + "]");
  }

  const TrainedBucket& trained_;
  std::vector<BufferId> updated_;
  BufferId scale_;
  const OptimizerGroup& group_;
  double clip_value_;
  const OpRegistry& registry_;
  std::vector<Instruction> instructions_;
};

Instruction broadcast(ProgramBuilder& builder, BufferId buffer, const Axis& axis, const std::string& label) {
  return builder.collective({.kind = CollectiveKind::broadcast, .axes = {axis}}, buffer, buffer,
                            label + " broadcast " + axis);
}

/// True if every rank holds the whole values but updates only its piece (ZeRO-1, ZeRO-2).
bool updates_piece_of_whole(const Bucket& bucket) { return bucket.pieces > 1 && !bucket.gathers_values(); }

void emit_update(ProgramBuilder& builder, const TrainedBucket& trained, const StagedBucket& staged, BufferId scale,
                 const UpdateRequest& request, std::vector<Instruction>& instructions) {
  const Bucket& bucket = trained.bucket;
  std::vector<BufferId> updated{staged.on_device(bucket.values)};
  if (updates_piece_of_whole(bucket)) {
    updated.front() = slice_piece(builder, bucket.values, bucket.storage.axes, bucket.name, instructions);
  }
  for (const BufferId state : trained.states) updated.push_back(staged.on_device(state));
  instructions.push_back(BucketUpdate(trained, updated, scale, request).run());
  std::vector<Instruction> work = work_on_bucket(builder, bucket, updated, request.stack);
  std::move(work.begin(), work.end(), std::back_inserter(instructions));
  if (updates_piece_of_whole(bucket)) {
    gather_into(builder, updated.front(), bucket.values, bucket.storage.axes, bucket.name, instructions);
  }
}

}  // namespace

void emit_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets, BufferId scale,
                  const UpdateRequest& request, std::vector<Instruction>& epilogue) {
  std::vector<StagedBucket> staged;
  for (const TrainedBucket& each : buckets) staged.emplace_back(builder, each.bucket, each.states);
  std::vector<Instruction> updates;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::vector<BufferId> gone = i < 2 ? std::vector<BufferId>{} : staged[i - 2].copies();
    if (i + 1 < buckets.size()) staged[i + 1].fetch(gone, updates);
    emit_update(builder, buckets[i], staged[i], scale, request, updates);
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
