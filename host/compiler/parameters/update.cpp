#include "compiler/parameters/update.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "compiler/parameters/bucket_update.hpp"
#include "compiler/parameters/staged_bucket.hpp"
#include "compiler/parameters/strategy_work.hpp"
#include "compiler/parameters/weight_average.hpp"
#include "compiler/parameters/whole_parameters.hpp"
#include "compiler/placement/bucket_collectives.hpp"

namespace strata::host {
namespace {

Instruction broadcast(ProgramBuilder& builder, BufferId buffer, const Axis& axis, const std::string& label) {
  return builder.collective({.kind = CollectiveKind::broadcast, .axes = {axis}}, buffer, buffer,
                            label + " broadcast " + axis);
}

/// The pieces of a bucket that its update reads and writes, besides the values.
std::vector<BufferId> with_average(const TrainedBucket& trained) {
  std::vector<BufferId> pieces = trained.states;
  if (trained.average >= 0) pieces.push_back(trained.average);
  return pieces;
}

/// The updates of all buckets, in the order in which they are emitted. Those in one unit exchange whole parameters.
class Updates {
 public:
  Updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets, BufferId scale,
          const UpdateRequest& request)
      : builder_(builder), request_(request) {
    pending_.reserve(buckets.size());
    for (const TrainedBucket& each : buckets) {
      staged_.emplace_back(builder, each.bucket, with_average(each));
      pending_.push_back(prepare(each, staged_.back(), scale));
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
      const std::vector<BufferId> more = staged_[i].copies();
      copies.insert(copies.end(), more.begin(), more.end());
    }
    return copies;
  }

  void emit(std::size_t unit, std::vector<Instruction>& instructions) {
    std::vector<PendingUpdate*> together;
    for (const std::size_t i : units_[unit]) together.push_back(&pending_[i]);
    if (together.front()->made.whole) {
      emit_together(builder_, together, request_, instructions);
      return;
    }
    std::vector<Instruction>& made = together.front()->made.after;
    instructions.insert(instructions.end(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  }

 private:
  /// Everything that updates a bucket. ZeRO-1 and ZeRO-2 slice the values before and gather them after the update.
  PendingUpdate prepare(const TrainedBucket& trained, const StagedBucket& staged, BufferId scale) {
    const Bucket& bucket = trained.bucket;
    const bool in_pieces = bucket.updates_piece_of_whole();
    std::vector<Instruction> slices;
    std::vector<BufferId> updated{staged.on_device(bucket.values)};
    if (in_pieces) {
      updated.front() = slice_piece(builder_, bucket.values, bucket.storage.axes, bucket.name, slices);
    }
    for (const BufferId state : trained.states) updated.push_back(staged.on_device(state));
    PendingUpdate pending{&trained, update_bucket(builder_, trained, updated, scale, request_)};
    std::vector<Instruction>& after = pending.made.after;
    after.insert(after.begin(), std::make_move_iterator(slices.begin()), std::make_move_iterator(slices.end()));
    std::vector<Instruction> work = work_on_bucket(builder_, bucket, updated, request_.stack);
    std::move(work.begin(), work.end(), std::back_inserter(after));
    if (trained.average >= 0) {
      const BufferId values = updated[bucket.has_master() ? 1 : 0];
      after.push_back(
          update_average(bucket, staged.on_device(trained.average), values, request_.optimizer.average_decay));
    }
    if (in_pieces) {
      gather_into(builder_, updated.front(), bucket.values, bucket.storage.axes, bucket.name, after);
    }
    return pending;
  }

  /// Adds an update to the last unit that it can join, or to a new one.
  void assign(std::size_t index) {
    const PendingUpdate& update = pending_[index];
    if (update.made.whole) {
      const auto open = std::find_if(units_.rbegin(), units_.rend(), [&](const std::vector<std::size_t>& unit) {
        const PendingUpdate& first = pending_[unit.front()];
        return first.made.whole && can_exchange_together(builder_, first, update, request_);
      });
      if (open != units_.rend() && static_cast<std::int64_t>(open->size()) < updates_per_exchange(builder_, update)) {
        open->push_back(index);
        return;
      }
    }
    units_.push_back({index});
  }

  ProgramBuilder& builder_;
  const UpdateRequest& request_;
  std::vector<StagedBucket> staged_;
  std::vector<PendingUpdate> pending_;
  std::vector<std::vector<std::size_t>> units_;
};

}  // namespace

void emit_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets, BufferId scale,
                  const UpdateRequest& request, std::vector<Instruction>& epilogue) {
  Updates all(builder, buckets, scale, request);
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
  epilogue.insert(epilogue.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  epilogue.insert(epilogue.end(), std::make_move_iterator(updates.begin()), std::make_move_iterator(updates.end()));
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

}  // namespace strata::host
