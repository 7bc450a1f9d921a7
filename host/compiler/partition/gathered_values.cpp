#include "compiler/partition/gathered_values.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/instructions.hpp"

namespace strata::host {

GatheredValues::GatheredValues(ProgramBuilder& builder, const std::vector<Bucket>& buckets, bool training)
    : builder_(builder), buckets_(buckets), training_(training) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (!buckets[i].gathers_values()) continue;
    for (std::size_t k = 0; k < buckets[i].parameters.size(); ++k) {
      places_[buckets[i].parameters[k]] = {i, buckets[i].offsets[k]};
    }
  }
}

BufferId GatheredValues::view(std::size_t index, const Buffer& like, const TaskKey& task, int block) {
  const Place& place = places_.at(index);
  const bool once = !buckets_[place.bucket].storage.reshard_after_forward;
  const bool for_step = once && training_;
  const Key key =
      for_step ? Key{place.bucket, {Task::Kind::prologue, 0}, -1} : Key{place.bucket, task, once ? -1 : block};
  const auto known = views_.find({key, index});
  if (known != views_.end()) return known->second;
  const Buffer shape = like;  // a copy: a gather adds buffers, which moves the original
  const auto whole = gathered_.find(key);
  const BufferId base = whole != gathered_.end() ? whole->second
                        : for_step               ? gather_for_step(place.bucket, key)
                                                 : gather(place.bucket, key, block);
  const BufferId view = builder_.add_buffer(shape.name, BufferKind::parameter, shape.dtype, shape.dims, shape.shape,
                                            builder_.buffer(base).persistent);
  builder_.make_view(view, base, place.offset);
  views_.emplace(std::pair(key, index), view);
  return view;
}

BufferId GatheredValues::gather_for_step(std::size_t index, const Key& key) {
  const Bucket& bucket = buckets_[index];
  std::vector<Instruction>& prologue = builder_.instructions(Task::Kind::prologue);
  const BufferId piece = fetch(bucket, bucket.name, prologue);
  const BufferId whole = bucket.pieces == 1 ? piece
                                            : gather_pieces(builder_, piece, bucket.storage.axes, bucket.elements,
                                                            bucket.name + " for the step", prologue);
  builder_.buffer(whole).persistent = true;  // all micro-batches read it
  gathered_[key] = whole;
  return whole;
}

BufferId GatheredValues::gather(std::size_t index, const Key& key, int block) {
  const Bucket& bucket = buckets_[index];
  const ParameterStorage& storage = bucket.storage;
  const TaskKey& task = std::get<TaskKey>(key);
  const Key forward{index, {Task::Kind::forward, task.chunk}, block};
  const std::string label = bucket.name + " for " + std::string(to_string(task.kind)) + " of block " +
                            std::to_string(block) + " of chunk " + std::to_string(task.chunk);
  Gather made{task, block, storage.prefetch, {}};
  const auto kept = secondary_.find(forward);
  const bool from_secondary = task.kind != Task::Kind::forward && kept != secondary_.end();
  // A transfer starts one block before the gather, so that it overlaps with that block.
  Gather fetched{task, block, storage.prefetch + (bucket.pieces > 1 && storage.prefetch > 0 ? 1 : 0), {}};
  const BufferId piece = from_secondary ? kept->second : fetch(bucket, label, fetched.instructions);
  if (!fetched.instructions.empty()) gathers_.push_back(std::move(fetched));
  const BufferId whole = bucket.pieces == 1
                             ? piece
                             : gather_pieces(builder_, piece, from_secondary ? storage.secondary_axes : storage.axes,
                                             bucket.elements, label, made.instructions);
  if (training_ && task.kind == Task::Kind::forward && !storage.secondary_axes.empty()) {
    // The slice waits for the gather. Next to the prefetched gather it would end the overlap, so it goes to the use.
    secondary_[key] =
        slice_piece(builder_, whole, storage.secondary_axes, label + " secondary", builder_.task(task).instructions);
  }
  gathered_[key] = whole;
  gathers_.push_back(std::move(made));
  return whole;
}

BufferId GatheredValues::fetch(const Bucket& bucket, const std::string& label, std::vector<Instruction>& instructions) {
  const Buffer home = builder_.buffer(bucket.values);
  if (home.place == MemoryPlace::device) return bucket.values;
  const BufferId piece = builder_.add_flat(label + " fetched", home.kind, home.dtype, home.elements());
  instructions.push_back(transfer(bucket.values, piece, label + " to the device"));
  return piece;
}

void GatheredValues::insert() {
  std::map<TaskKey, std::vector<const Gather*>> by_task;
  for (const Gather& each : gathers_) by_task[each.task].push_back(&each);
  for (const auto& [key, gathers] : by_task) insert(builder_.task(key), gathers);
}

void GatheredValues::insert(Task& task, const std::vector<const Gather*>& gathers) {
  std::vector<int> order;               // blocks in the order of their first instruction in the task
  std::map<int, std::ptrdiff_t> first;  // position of that instruction
  for (std::ptrdiff_t at = 0; at < std::ssize(task.instructions); ++at) {
    const int block = task.instructions[static_cast<std::size_t>(at)].block;
    if (block >= 0 && first.try_emplace(block, at).second) order.push_back(block);
  }
  Insertions before;
  Insertions behind;
  for (const Gather* gather : gathers) {
    const auto at = std::ranges::find(order, gather->block) - order.begin();
    const int ahead = order.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, at - gather->prefetch)));
    const auto arrival = after_last_asynchronous(gather->instructions);
    for (auto each = gather->instructions.begin(); each != gather->instructions.end(); ++each) {
      Instruction instruction = *each;
      instruction.block = gather->block;
      // Instructions after the arrival wait for it, so they are inserted at the use.
      (each < arrival ? before[first.at(ahead) - 1] : behind[first.at(gather->block) - 1])
          .push_back(std::move(instruction));
    }
  }
  for (auto& [at, more] : behind) std::move(more.begin(), more.end(), std::back_inserter(before[at]));
  host::insert(task, std::move(before));
}

}  // namespace strata::host
