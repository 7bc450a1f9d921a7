#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "compiler/check/communication_in_flight.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/instructions.hpp"
#include "compiler/program/short_schedule.hpp"
#include "compiler/program/step_variants.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Executes the scheduled program symbolically: every byte of memory records the buffer that was last written there.
/// This needs no lifetimes. If the plan reuses memory too early, an instruction finds bytes of another buffer.
class Replay {
 public:
  Replay(const Program& program, const OpRegistry& registry, const MemoryPlan& plan)
      : program_(program), registry_(registry), plan_(plan), ranges_(program) {
    for (const StoredParameter& parameter : program.parameters) shareable_.insert(ranges_.root(parameter.value));
  }

  /// Executes the instructions of step `step_number`.
  void run(std::uint64_t step_number) {
    place_persistent();
    for_each_instruction(program_, step_number,
                         [this](const TaskInstance& at, std::size_t index, const Instruction& instruction) {
                           at_ = at;
                           where_ = [this, at, index] { return describe(program_, at, index); };
                           step(instruction);
                         });
    where_ = [] { return std::string("the end of the step"); };
    reports_survive();
  }

 private:
  struct Owner {
    std::int64_t instance = 0;
    /// Offset of the instance's first byte in its memory place.
    std::int64_t origin = 0;
  };
  using Owners = ByteMap<Owner>;

  [[noreturn]] void fail(const std::string& what) const {
    throw VerificationError("memory plan of program '" + program_.name + "': " + what);
  }

  void place_persistent() {
    where_ = [] { return std::string("the beginning of the step"); };
    if (plan_.offsets.size() != program_.buffers.size() || plan_.slots() < 1) fail("it is for another program");
    if (plan_.persistent_bytes > plan_.arena_bytes) fail("persistent buffers lie outside the arena");
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.base >= 0 || !buffer.persistent) continue;
      const std::int64_t offset = place(buffer.id, -1);
      if (buffer.place == MemoryPlace::device && offset + buffer.bytes() > plan_.persistent_bytes) {
        fail("persistent buffer " + describe(program_, buffer.id) + " lies among those that are not");
      }
      claim(ranges_.range(buffer.id, -1), offset);
    }
  }

  void step(const Instruction& instruction) {
    ranges_.for_each_wait(instruction, at_.micro_batch, [this](const ByteRange& range) { in_flight_.wait(range); });
    operands_are_apart(instruction);
    for (const BufferId id : instruction.inputs) read(id, at_.micro_batch);
    for (const BufferId id : outputs_read(instruction, registry_)) read(id, at_.micro_batch);
    for (const BufferId id : instruction.outputs) write(id);
    if (instruction.workspace() != -1) write(instruction.workspace());
    if (is_asynchronous(instruction)) in_flight_.start(instruction, at_.micro_batch, ranges_, where_);
  }

  /// Offset that the plan gives a buffer. A view must have the offset that its root implies.
  [[nodiscard]] std::int64_t place(BufferId id, int micro_batch) const {
    const BufferId root = ranges_.root(id);
    const std::int64_t offset = plan_.offset(id, micro_batch);
    const std::int64_t origin = plan_.offset(root, micro_batch);
    if (offset != origin + ranges_.begin(id)) {
      fail("view " + describe(program_, id) + " does not lie in " + describe(program_, root));
    }
    if (origin % kBufferAlignment != 0 && !shareable_.contains(root)) {
      fail("buffer " + describe(program_, id) + " lies at " + std::to_string(origin) + ", which is not aligned");
    }
    const std::int64_t size = size_of_place(program_.buffer(root).place);
    if (origin < 0 || origin + program_.buffer(root).bytes() > size) {
      fail("buffer " + describe(program_, id) + " lies outside the " + name_of_place(program_.buffer(root).place) +
           " of " + std::to_string(size) + " bytes at " + where_());
    }
    return offset;
  }

  [[nodiscard]] std::int64_t size_of_place(MemoryPlace place) const {
    if (place == MemoryPlace::device) return plan_.arena_bytes;
    return place == MemoryPlace::host ? plan_.offload.host : plan_.offload.file;
  }

  [[nodiscard]] static std::string name_of_place(MemoryPlace place) {
    if (place == MemoryPlace::device) return "arena";
    return place == MemoryPlace::host ? "host memory" : "file";
  }

  [[nodiscard]] Owners& owners(BufferId root) {
    return owners_.at(static_cast<std::size_t>(program_.buffer(root).place));
  }
  [[nodiscard]] const Owners& owners(BufferId root) const {
    return owners_.at(static_cast<std::size_t>(program_.buffer(root).place));
  }

  /// Checks that buffers of one instruction, including its workspace, share memory only if both are views of one root.
  void operands_are_apart(const Instruction& instruction) const {
    std::vector<BufferId> used = instruction.inputs;
    used.insert(used.end(), instruction.outputs.begin(), instruction.outputs.end());
    if (instruction.workspace() != -1) used.push_back(instruction.workspace());
    std::map<std::int64_t, std::pair<std::int64_t, BufferId>> placed;  // offset -> end, buffer
    for (const BufferId id : used) {
      if (program_.buffer(id).place != MemoryPlace::device) continue;  // only one operand of a transfer
      const std::int64_t begin = place(id, at_.micro_batch);
      const std::int64_t end = begin + program_.buffer(id).bytes();
      for (auto other = placed.begin(); other != placed.end() && other->first < end; ++other) {
        if (other->second.first <= begin || ranges_.root(other->second.second) == ranges_.root(id)) continue;
        fail(describe(program_, id) + " and " + describe(program_, other->second.second) + " overlap at " + where_());
      }
      auto& widest = placed[begin];
      if (widest.first < end) widest = {end, id};
    }
  }

  void read(BufferId id, int micro_batch) const {
    const ByteRange range = ranges_.range(id, micro_batch);
    const std::int64_t begin = place(id, micro_batch);
    const auto visit = [&](std::int64_t, std::int64_t, const Owner* owner) {
      if (owner != nullptr && owner->instance == range.instance) return;
      fail("buffer " + ranges_.describe_instance(range.instance) + " is read at " + where_() +
           (owner == nullptr ? " before it was written"
                             : " but " + ranges_.describe_instance(owner->instance) + " lies in its place"));
    };
    owners(ranges_.root(id)).for_each_run(begin, begin + (range.end - range.begin), visit);
  }

  void write(BufferId id) { claim(ranges_.range(id, at_.micro_batch), place(id, at_.micro_batch)); }

  /// Records the bytes of `range` as the owner of the memory from `begin` on.
  void claim(const ByteRange& range, std::int64_t begin) {
    const std::int64_t end = begin + (range.end - range.begin);
    Owners& owners = this->owners(ranges_.root_of_instance(range.instance));
    owners.for_each_run(begin, end, [&](std::int64_t first, std::int64_t last, const Owner* owner) {
      if (owner != nullptr && owner->instance != range.instance) may_displace(first, last, *owner, range);
    });
    owners.set(begin, end, {range.instance, begin - range.begin});
  }

  /// The owner loses the bytes [begin, end) to `range`.
  void may_displace(std::int64_t begin, std::int64_t end, const Owner& owner, const ByteRange& range) const {
    const auto both = [&] {
      return ranges_.describe_instance(range.instance) + " overlaps " + ranges_.describe_instance(owner.instance);
    };
    if (program_.buffer(ranges_.root_of_instance(owner.instance)).persistent) {
      fail(both() + ", which is persistent, at " + where_());
    }
    const ByteRange displaced{owner.instance, begin - owner.origin, end - owner.origin};
    if (const auto communication = in_flight_.conflict(displaced, true)) {
      fail(both() + " at " + where_() + " while it is used by " + *communication);
    }
  }

  void reports_survive() const {
    for (const auto& [name, id] : program_.reports) {
      read(id, plan_.reported(id, program_.micro_batches));
    }
  }

  const Program& program_;
  const OpRegistry& registry_;
  const MemoryPlan& plan_;
  const BufferRanges ranges_;
  /// Roots of buffers with parameters, which another program may have placed.
  std::set<BufferId> shareable_;
  /// Owners of bytes by MemoryPlace.
  std::array<Owners, 3> owners_;
  CommunicationInFlight in_flight_;
  TaskInstance at_;
  std::function<std::string()> where_;
};

}  // namespace

void verify_memory(const Program& whole, const OpRegistry& registry, const MemoryPlan& plan) {
  const Program program = shortened(whole, superfluous_micro_batches({&whole}, std::max(plan.slots(), 1)));
  for (const StepVariant& variant : step_variants(program).variants) {
    Replay(program, registry, plan).run(variant.step);
  }
}

}  // namespace strata::host
