#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/short_schedule.hpp"
#include "compiler/program/step_variants.hpp"

namespace strata::host {
namespace {

/// Walks the schedule of one variant of the step. A task collects the waits of all its runs.
class WaitInserter {
 public:
  WaitInserter(Program& program, std::uint64_t step) : program_(program), step_(step), ranges_(program) {}

  void run() {
    find_read_memory();
    walk([this](const Instruction& instruction, int micro_batch) { note_touches(instruction, micro_batch); });
    walk([this](Instruction& instruction, int micro_batch) { visit(instruction, micro_batch); });
  }

 private:
  /// Memory that an asynchronous instruction in flight reads or writes.
  struct Use {
    ByteRange range;
    BufferId buffer = -1;
    bool is_written = false;
  };
  struct InFlight {
    bool is_collective = false;
    bool is_send = false;
    std::vector<Use> uses;
  };

  template <class Visit>
  void walk(const Visit& visit) {
    now_ = 0;
    for (const TaskInstance& instance : program_.schedule) {
      for (Instruction& instruction : program_.tasks[static_cast<std::size_t>(instance.task)].instructions) {
        if (!instance.runs(instruction) || !instruction.when.holds(step_)) continue;
        visit(instruction, instance.micro_batch);
        ++now_;
      }
    }
  }

  // --- last accesses of memory that collectives and transfers read

  void find_read_memory() {
    is_read_.assign(program_.buffers.size(), false);
    for (const Task& task : program_.tasks) {
      for (const Instruction& instruction : task.instructions) {
        if (!is_asynchronous(instruction) || instruction.is<Send>()) continue;
        for (const BufferId buffer : instruction.inputs)
          is_read_[static_cast<std::size_t>(ranges_.root(buffer))] = true;
      }
    }
  }

  void note_touches(const Instruction& instruction, int micro_batch) {
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs, &instruction.waits}) {
      for (const BufferId buffer : *buffers) {
        if (!is_read_[static_cast<std::size_t>(ranges_.root(buffer))]) continue;
        last_touch_[ranges_.instance(buffer, micro_batch)] = now_;
      }
    }
  }

  [[nodiscard]] bool is_last_touch(std::int64_t instance) const {
    const auto last = last_touch_.find(instance);
    return last != last_touch_.end() && last->second == now_;
  }

  // --- waits

  void visit(Instruction& instruction, int micro_batch) {
    ranges_.for_each_wait(instruction, micro_batch, [this](const ByteRange& range) { complete(range); });
    for (const BufferId buffer : instruction.inputs) wait_for_conflicts(instruction, buffer, micro_batch, false);
    for (const BufferId buffer : instruction.outputs) wait_for_conflicts(instruction, buffer, micro_batch, true);
    if (is_asynchronous(instruction)) start(instruction, micro_batch);
  }

  void wait_for_conflicts(Instruction& instruction, BufferId buffer, int micro_batch, bool writes) {
    const ByteRange range = ranges_.range(buffer, micro_batch);
    const auto found = in_flight_.find(range.instance);
    if (found == in_flight_.end()) return;
    const bool last = is_last_touch(range.instance);
    std::vector<Use> awaited;
    for (const std::shared_ptr<InFlight>& each : found->second) {
      // Collectives run in order among themselves. Messages and transfers have no order.
      if (instruction.is<Collective>() && each->is_collective) continue;
      for (const Use& use : each->uses) {
        if (!use.range.overlaps(range)) continue;
        // To reuse memory that a collective or a transfer reads, its last reader waits. A send is complete when another
        // rank has received, which may need what this reader computes.
        if (writes || use.is_written || (last && !each->is_send)) awaited.push_back(use);
      }
    }
    for (const Use& use : awaited) {
      if (!contains(instruction.waits, use.buffer)) {
        instruction.waits.push_back(use.buffer);
      }
      complete(use.range);
    }
  }

  void start(const Instruction& instruction, int micro_batch) {
    const auto started = std::make_shared<InFlight>();
    started->is_collective = instruction.is<Collective>();
    started->is_send = instruction.is<Send>();
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        started->uses.push_back({ranges_.range(buffer, micro_batch), buffer, buffers == &instruction.outputs});
        std::vector<std::shared_ptr<InFlight>>& here = in_flight_[started->uses.back().range.instance];
        if (here.empty() || here.back() != started) here.push_back(started);
      }
    }
  }

  /// Completes what uses any byte of `range`, as the executor does.
  void complete(const ByteRange& range) {
    const auto found = in_flight_.find(range.instance);
    if (found == in_flight_.end()) return;
    const std::vector<std::shared_ptr<InFlight>> here = found->second;
    for (const std::shared_ptr<InFlight>& each : here) {
      const bool uses_range =
          std::ranges::any_of(each->uses, [&](const Use& use) { return use.range.overlaps(range); });
      if (!uses_range) continue;
      for (const Use& use : each->uses) {
        const auto place = in_flight_.find(use.range.instance);
        if (place == in_flight_.end()) continue;
        std::erase(place->second, each);
        if (place->second.empty()) in_flight_.erase(place);
      }
    }
  }

  Program& program_;
  std::uint64_t step_;
  const BufferRanges ranges_;
  std::vector<bool> is_read_;  // by root buffer
  std::int64_t now_ = 0;
  std::unordered_map<std::int64_t, std::int64_t> last_touch_;                           // by instance of memory
  std::unordered_map<std::int64_t, std::vector<std::shared_ptr<InFlight>>> in_flight_;  // by instance of memory
};

}  // namespace

void insert_waits(Program& program) {
  const ShortSchedules shorter({&program, 1});
  for (const StepVariant& variant : step_variants(program).variants) WaitInserter(program, variant.step).run();
}

}  // namespace strata::host
