#include "compiler/memory/memory_plan.hpp"

#include <algorithm>

#include "compiler/memory/memory_packing.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/short_schedule.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

std::int64_t aligned(std::int64_t offset) {
  return (offset + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

ValueStorage value_storage(const Program& program, const StoredParameter& parameter) {
  ValueStorage storage{program.buffer(program.root(parameter.value)).place, parameter.dims, {}};
  if (parameter.sharding && parameter.sharding->values) storage.sharding = parameter.sharding;
  return storage;
}

/// True for a buffer that programs share by its name.
bool is_shared_state(const Buffer& buffer) {
  return buffer.base < 0 && buffer.persistent &&
         (buffer.kind == BufferKind::optimizer || buffer.kind == BufferKind::cache);
}

/// Plans for `program`, in which every `slots` micro-batches use the memory of those before.
class MemoryPlanner {
 public:
  MemoryPlanner(const Program& program, const SharedMemory& shared, int slots, PackingEffort effort)
      : program_(program),
        shared_(shared),
        slots_(slots),
        effort_(effort),
        ranges_(program),
        lifetimes_(buffer_lifetimes(program, ranges_)) {
    plan_.offsets.assign(program.buffers.size(), std::vector<std::int64_t>(row_size(), -1));
    root_offsets_.assign(program.buffers.size() * row_size(), -1);
  }

  [[nodiscard]] int enough_slots() const { return find_slots(lifetimes_, ranges_, program_.micro_batches, slots_); }

  MemoryPlan run() {
    require_countable();
    for (const StoredParameter& parameter : program_.parameters) place_shared(parameter);
    for (const Buffer& buffer : program_.buffers) place_shared_state(buffer);
    place_persistent();
    place_transient();
    fill_offsets();
    measure_peak();
    return std::move(plan_);
  }

 private:
  /// Sums of offsets and sizes below must fit into 64 bits.
  void require_countable() const {
    std::int64_t left = std::int64_t{1} << 60;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.base < 0 && buffer.persistent) left -= std::min(left, buffer.bytes());
    }
    for (const Lifetime& lifetime : lifetimes_) left -= std::min(left, lifetime.bytes);
    if (left > 0) return;
    throw ConfigurationError("the buffers of program '" + program_.name +
                             "' have 2^60 bytes or more; its dimensions are too large");
  }

  [[nodiscard]] std::size_t row_size() const { return static_cast<std::size_t>(slots_) + 1; }
  /// Position of an instance among root_offsets_.
  [[nodiscard]] std::size_t place(std::int64_t instance) const {
    const int micro_batch = ranges_.micro_batch_of_instance(instance);
    const std::size_t slot = micro_batch < 0 ? 0 : static_cast<std::size_t>(1 + micro_batch % slots_);
    return static_cast<std::size_t>(ranges_.root_of_instance(instance)) * row_size() + slot;
  }
  std::int64_t& root_offset(std::int64_t instance) { return root_offsets_[place(instance)]; }

  /// Places the buffer that contains a shared parameter, whose offset the other program has fixed.
  void place_shared(const StoredParameter& parameter) {
    const auto found = shared_.parameters.find(parameter.name);
    if (found == shared_.parameters.end()) return;
    const ByteRange range = ranges_.range(parameter.value, -1);
    const std::int64_t offset = found->second.offset - range.begin;
    const Buffer& buffer = program_.buffer(ranges_.root(parameter.value));
    if (value_storage(program_, parameter) != found->second.storage) {
      throw VerificationError("memory plan of program '" + program_.name + "': parameter '" + parameter.name +
                              "' is sharded in another way than in the program that it shares its values with");
    }
    place_at(range.instance, buffer, offset, "parameter '" + parameter.name + "'");
  }

  /// Places an optimizer state or a cache that the other program has placed.
  void place_shared_state(const Buffer& buffer) {
    if (!is_shared_state(buffer)) return;
    const auto found = shared_.states.find(buffer.name);
    if (found == shared_.states.end()) return;
    place_at(ranges_.instance(buffer.id, -1), buffer, found->second, "a state");
  }

  /// Places an instance at an offset that the other program has fixed.
  void place_at(std::int64_t instance, const Buffer& buffer, std::int64_t offset, const std::string& content) {
    const std::int64_t end = offset + buffer.bytes();
    std::int64_t& placed = root_offset(instance);
    if (offset < 0 || end > shared_bytes(buffer.place) || (placed >= 0 && placed != offset)) {
      throw VerificationError("memory plan of program '" + program_.name + "': buffer " +
                              ranges_.describe_instance(instance) + " with " + content +
                              " does not fit where another program has placed it");
    }
    placed = offset;
  }

  /// Bytes of a place that belong to the first program.
  [[nodiscard]] std::int64_t shared_bytes(MemoryPlace place) const {
    if (place == MemoryPlace::device) return shared_.transient_begin;
    return place == MemoryPlace::host ? shared_.offload.host : shared_.offload.file;
  }

  void place_persistent() {
    plan_.persistent_bytes = place_persistent(MemoryPlace::device);
    plan_.arena_bytes = plan_.persistent_bytes;
    plan_.offload = {place_persistent(MemoryPlace::host), place_persistent(MemoryPlace::file)};
  }

  /// Places persistent buffers after those of the first program. \return the end of the used bytes.
  std::int64_t place_persistent(MemoryPlace place) {
    std::int64_t end = shared_bytes(place);
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.base >= 0 || !buffer.persistent || buffer.place != place) continue;
      std::int64_t& offset = root_offset(ranges_.instance(buffer.id, -1));
      if (offset >= 0) continue;
      offset = aligned(end);
      end = offset + buffer.bytes();
    }
    return end;
  }

  void place_transient() {
    std::vector<MemoryBlock> blocks;
    std::vector<std::size_t> places;  // of the blocks
    std::vector<int> block_at(root_offsets_.size(), -1);
    for (const Lifetime& each : lifetimes_) {
      int& block = block_at[place(each.instance)];
      if (block < 0) {
        block = static_cast<int>(blocks.size());
        blocks.push_back({each.bytes, {}});
        places.push_back(place(each.instance));
      }
      blocks[static_cast<std::size_t>(block)].spans.push_back({each.begin, each.end});
    }
    const MemoryPacking packing = pack_memory(blocks, kBufferAlignment, effort_);
    const std::int64_t begin = aligned(plan_.persistent_bytes);
    for (std::size_t i = 0; i < blocks.size(); ++i) root_offsets_[places[i]] = begin + packing.offsets[i];
    if (!blocks.empty()) plan_.arena_bytes = begin + packing.bytes;
  }

  void fill_offsets() {
    for (const Buffer& buffer : program_.buffers) {
      for (std::size_t slot = 0; slot < row_size(); ++slot) {
        const auto base = static_cast<std::size_t>(ranges_.root(buffer.id));
        const std::int64_t root = root_offsets_[base * row_size() + (ranges_.persistent(buffer.id) ? 0 : slot)];
        if (root >= 0) plan_.offsets[static_cast<std::size_t>(buffer.id)][slot] = root + ranges_.begin(buffer.id);
      }
    }
  }

  void measure_peak() {
    const int peak = find_peak(lifetimes_).moment;
    for (const Buffer& buffer : program_.buffers) {
      const bool in_arena = buffer.base < 0 && buffer.place == MemoryPlace::device;
      if (in_arena && buffer.persistent) plan_.bytes_at_peak[buffer.kind] += buffer.bytes();
    }
    for (const Lifetime& lifetime : lifetimes_) {
      if (lifetime.begin > peak || lifetime.end < peak) continue;
      plan_.bytes_at_peak[program_.buffer(ranges_.root_of_instance(lifetime.instance)).kind] += lifetime.bytes;
    }
  }

  const Program& program_;
  const SharedMemory& shared_;
  int slots_;
  PackingEffort effort_;
  const BufferRanges ranges_;
  const std::vector<Lifetime> lifetimes_;
  /// By root buffer and slot, as MemoryPlan::offsets, one row after the other.
  std::vector<std::int64_t> root_offsets_;
  MemoryPlan plan_;
};

}  // namespace

OffloadBytes largest(const OffloadBytes& a, const OffloadBytes& b) {
  return {std::max(a.host, b.host), std::max(a.file, b.file)};
}

std::int64_t MemoryPlan::find(BufferId buffer, int micro_batch) const {
  const std::vector<std::int64_t>& row = offsets.at(static_cast<std::size_t>(buffer));
  return row[micro_batch < 0 ? 0 : static_cast<std::size_t>(1 + micro_batch % slots())];
}

std::int64_t MemoryPlan::offset(BufferId buffer, int micro_batch) const {
  const std::int64_t offset = find(buffer, micro_batch);
  if (offset >= 0) return offset;
  throw VerificationError("the memory plan has no place for buffer %" + std::to_string(buffer) + " in micro-batch " +
                          std::to_string(micro_batch));
}

int MemoryPlan::reported(BufferId buffer, int micro_batches) const {
  int last = find(buffer, -1) >= 0 ? -1 : micro_batches - 1;
  while (last > 0 && find(buffer, last) < 0) --last;
  return last;
}

MemoryPlan plan_memory(const Program& program, const SharedMemory& shared, PackingEffort effort) {
  int slots = 1;
  while (const int superfluous = superfluous_micro_batches({&program}, slots)) {
    const Program shorter = shortened(program, superfluous);
    MemoryPlanner planner(shorter, shared, slots, effort);
    const int enough = planner.enough_slots();
    if (enough == slots) {
      const MemoryPlan plan = planner.run();
      // More slots are more freedom for the packing, which finds a smaller arena in some cases.
      const int left_out = superfluous_micro_batches({&program}, 2 * slots);
      if (left_out == 0 || effort != PackingEffort::best) return plan;
      MemoryPlan other = MemoryPlanner(shortened(program, left_out), shared, 2 * slots, effort).run();
      return other.arena_bytes < plan.arena_bytes ? other : plan;
    }
    if (enough == shorter.micro_batches) break;
    slots = enough;
  }
  if (program.micro_batches > kMostMicroBatchesAtOnce) {
    throw ConfigurationError("program '" + program.name + "' keeps memory of all its " +
                             std::to_string(program.micro_batches) +
                             " micro-batches until the step ends; accepted: at most " +
                             std::to_string(kMostMicroBatchesAtOnce) + ", with a larger batch.micro");
  }
  return MemoryPlanner(program, shared, program.micro_batches, effort).run();
}

SharedMemory shared_memory(const Program& program, const MemoryPlan& plan) {
  SharedMemory shared;
  for (const StoredParameter& parameter : program.parameters) {
    shared.parameters[parameter.name] = {value_storage(program, parameter), plan.offset(parameter.value, -1)};
  }
  for (const Buffer& buffer : program.buffers) {
    if (is_shared_state(buffer)) {
      shared.states[buffer.name] = plan.offset(buffer.id, -1);
    }
  }
  shared.transient_begin = plan.persistent_bytes;
  shared.offload = plan.offload;
  return shared;
}

}  // namespace strata::host
