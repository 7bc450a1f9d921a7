#include "compiler/parameters/update.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "compiler/parameters/bucket_update.hpp"
#include "compiler/parameters/strategy_work.hpp"
#include "strata/bucket_work.hpp"

namespace strata::host {
namespace {

Instruction broadcast(ProgramBuilder& builder, BufferId buffer, const Axis& axis, const std::string& label) {
  return builder.collective({.kind = CollectiveKind::broadcast, .axes = {axis}}, buffer, buffer,
                            label + " broadcast " + axis);
}

/// The updates of all buckets, in the order in which they are emitted. Those in one unit exchange whole parameters.
class Updates {
 public:
  Updates(const PlacedModel& model, const std::vector<TrainedBucket>& buckets, BufferId scale, ProgramBuilder& builder)
      : model_(model), builder_(builder) {
    pending_.reserve(buckets.size());
    for (const TrainedBucket& each : buckets) {
      StagedBuffers& staged = staged_.emplace_back();
      staged.add(builder, each.bucket.values);
      for (const BufferId state : each.states) staged.add(builder, state);
      if (each.average >= 0) staged.add(builder, each.average);
      pending_.push_back(prepare(each, staged, scale));
    }
    for (std::size_t i = 0; i < pending_.size(); ++i) assign(i);
  }

  [[nodiscard]] std::size_t units() const { return units_.size(); }

  /// Starts the transfers of a unit's offloaded buffers to the device, when no instruction uses the buffers `after`.
  void fetch(std::size_t unit, const std::vector<BufferId>& after, std::vector<Instruction>& instructions) const {
    for (const std::size_t i : units_[unit]) staged_[i].fetch(after, instructions);
  }

  void store(std::size_t unit, std::vector<Instruction>& instructions) const {
    for (const std::size_t i : units_[unit]) staged_[i].store(instructions);
  }

  /// The staging copies of a unit.
  [[nodiscard]] std::vector<BufferId> copies(std::size_t unit) const {
    std::vector<BufferId> copies;
    for (const std::size_t i : units_[unit]) {
      for (const StagedBuffers::Copy& each : staged_[i].copies()) copies.push_back(each.copy);
    }
    return copies;
  }

  void emit(std::size_t unit, std::vector<Instruction>& instructions) {
    std::vector<PendingUpdate*> together;
    for (const std::size_t i : units_[unit]) together.push_back(&pending_[i]);
    if (together.front()->made.whole) {
      emit_together(model_, together, builder_, instructions);
      return;
    }
    std::vector<Instruction>& made = together.front()->made.after;
    std::move(made.begin(), made.end(), std::back_inserter(instructions));
  }

 private:
  /// Everything that updates a bucket. If a piece of whole values is updated, it is sliced before and gathered after.
  PendingUpdate prepare(const TrainedBucket& trained, const StagedBuffers& staged, BufferId scale) {
    const Bucket& bucket = trained.bucket;
    const bool in_pieces = bucket.updates_piece_of_whole();
    std::vector<Instruction> slices;
    std::vector<BufferId> updated{staged.on_device(bucket.values)};
    if (in_pieces) {
      updated.front() = slice_piece(builder_, bucket.values, bucket.storage.axes, bucket.name, slices);
    }
    for (const BufferId state : trained.states) updated.push_back(staged.on_device(state));
    PendingUpdate pending{&trained, update_bucket(model_, trained, updated, scale, builder_)};
    std::vector<Instruction>& after = pending.made.after;
    after.insert(after.begin(), std::make_move_iterator(slices.begin()), std::make_move_iterator(slices.end()));
    std::vector<Instruction> work = work_on_bucket(model_.stack, bucket, updated, builder_);
    std::move(work.begin(), work.end(), std::back_inserter(after));
    if (trained.average >= 0) {
      const BufferId average = staged.on_device(trained.average);
      const double decay = model_.request.optimizer.average_decay;
      const BufferId values = updated[bucket.has_master() ? 1 : 0];
      after.push_back(weighted_sum(bucket.name + " average", {{decay, average}, {1 - decay, values}}, average));
    }
    if (in_pieces) gather_into(builder_, updated.front(), bucket.values, bucket.storage.axes, bucket.name, after);
    return pending;
  }

  /// Adds an update to the last unit that it can join, or to a new one.
  void assign(std::size_t index) {
    const PendingUpdate& update = pending_[index];
    if (update.made.whole) {
      const auto open = std::find_if(units_.rbegin(), units_.rend(), [&](const std::vector<std::size_t>& unit) {
        const PendingUpdate& first = pending_[unit.front()];
        return first.made.whole && can_exchange_together(model_, builder_.program(), first, update);
      });
      if (open != units_.rend() && static_cast<std::int64_t>(open->size()) < updates_per_exchange(builder_, update)) {
        open->push_back(index);
        return;
      }
    }
    units_.push_back({index});
  }

  const PlacedModel& model_;
  ProgramBuilder& builder_;
  std::vector<StagedBuffers> staged_;
  std::vector<PendingUpdate> pending_;
  std::vector<std::vector<std::size_t>> units_;
};

/// Emits the instructions by which the average of a bucket becomes its values.
void copy_average(ProgramBuilder& builder, const Bucket& bucket, std::vector<Instruction>& instructions) {
  const auto round = [&](BufferId average, BufferId values) {
    instructions.push_back(weighted_sum(bucket.name + " average as values", {{1, average}}, values));
  };
  StagedBuffers source;
  const BufferId average = source.add(builder, add_average(builder, bucket));
  source.fetch({}, instructions);
  if (bucket.updates_piece_of_whole()) {
    const BufferId piece = builder.add_flat(bucket.name + " piece of the average", BufferKind::parameter, bucket.type,
                                            bucket.piece_elements());
    round(average, piece);
    gather_into(builder, piece, bucket.values, bucket.storage.axes, bucket.name, instructions);
    return;
  }
  StagedBuffers target;
  round(average, target.add(builder, bucket.values));
  target.store(instructions);
}

}  // namespace

void emit_updates(const PlacedModel& model, const std::vector<TrainedBucket>& buckets, BufferId scale,
                  ProgramBuilder& builder) {
  Updates all(model, buckets, scale, builder);
  std::vector<Instruction> updates;
  for (std::size_t i = 0; i < all.units(); ++i) {
    const std::vector<BufferId> gone = i < 2 ? std::vector<BufferId>{} : all.copies(i - 2);
    if (i + 1 < all.units()) all.fetch(i + 1, gone, updates);
    all.emit(i, updates);
    all.store(i, updates);
  }
  // Fetching the first bucket overlaps with the completion of gradients and their norm.
  std::vector<Instruction> first;
  if (all.units() > 0) all.fetch(0, {}, first);
  std::vector<Instruction>& epilogue = builder.instructions(Task::Kind::epilogue);
  epilogue.insert(epilogue.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  std::move(updates.begin(), updates.end(), std::back_inserter(epilogue));
}

void gather_for_step(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets) {
  std::vector<const Bucket*> gathered;
  for (const TrainedBucket& each : buckets) {
    if (each.bucket.gathers_for_step()) gathered.push_back(&each.bucket);
  }
  // Parameters are numbered in the order of the forward pass, which needs the first ones first.
  std::sort(gathered.begin(), gathered.end(), [](const Bucket* one, const Bucket* other) {
    return *std::min_element(one->parameters.begin(), one->parameters.end()) <
           *std::min_element(other->parameters.begin(), other->parameters.end());
  });
  for (const Bucket* each : gathered) {
    gather_into(builder, each->values, each->gathered, each->storage.axes, each->name,
                builder.instructions(Task::Kind::prologue));
  }
}

void broadcast_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets,
                       const std::vector<std::string>& reports, std::vector<Instruction>& instructions) {
  std::optional<Axis> axis;
  for (const TrainedBucket& each : buckets) {
    if (!each.bucket.storage.single_writer) continue;
    axis = each.bucket.storage.axes.front();
    instructions.push_back(broadcast(builder, each.bucket.values, *axis, each.bucket.name));
  }
  if (!axis) return;
  for (const std::string& name : reports) {
    const auto report = builder.program().reports.find(name);
    if (report == builder.program().reports.end()) continue;
    instructions.push_back(broadcast(builder, report->second, *axis, name));
  }
}

void emit_averages_as_values(ProgramBuilder& builder, const std::vector<Bucket>& buckets, const RankClass& rank_class,
                             std::int64_t period) {
  std::vector<Instruction> made;
  for (const Bucket& bucket : buckets) {
    if (rank_class.updates) copy_average(builder, bucket, made);
    if (bucket.storage.single_writer) {
      made.push_back(broadcast(builder, bucket.values, bucket.storage.axes.front(), bucket.name));
    }
  }
  for (Instruction& each : made) each.when = {.period = period, .phase = 0};
  std::vector<Instruction>& prologue = builder.instructions(Task::Kind::prologue);
  prologue.insert(prologue.begin(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
}

}  // namespace strata::host
