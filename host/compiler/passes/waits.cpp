#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/program/step_variants.hpp"

namespace strata::host {
namespace {

/// Walks the schedule of one variant of the step. A task collects the waits of all its runs, because waiting for a
/// buffer that is not in flight costs nothing.
class WaitInserter {
 public:
  WaitInserter(Program& program, std::uint64_t step)
      : program_(program), step_(step), is_sent_(program.buffers.size(), false) {}

  void run() {
    find_sent_buffers();
    walk([this](const Instruction& instruction, int micro_batch) { note_touches(instruction, micro_batch); });
    walk([this](Instruction& instruction, int micro_batch) { visit(instruction, micro_batch); });
  }

 private:
  using Memory = std::pair<BufferId, int>;  // root buffer and micro-batch, -1 for persistent memory

  [[nodiscard]] Memory memory(BufferId buffer, int micro_batch) const {
    const BufferId root = program_.root(buffer);
    return {root, program_.buffer(root).persistent ? -1 : micro_batch};
  }

  /// Buffers of one memory that are in flight.
  struct InFlight {
    std::set<BufferId> buffers;
    bool only_collectives = true;
    bool is_written = false;
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

  // --- last accesses of memory that asynchronous instructions read

  [[nodiscard]] std::vector<bool>::reference is_sent(BufferId buffer) {
    return is_sent_[static_cast<std::size_t>(program_.root(buffer))];
  }

  void find_sent_buffers() {
    for (const Task& task : program_.tasks) {
      for (const Instruction& instruction : task.instructions) {
        if (!is_asynchronous(instruction)) continue;
        for (const BufferId buffer : instruction.inputs) is_sent(buffer) = true;
      }
    }
  }

  void note_touches(const Instruction& instruction, int micro_batch) {
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs, &instruction.waits}) {
      for (const BufferId buffer : *buffers) {
        if (is_sent(buffer)) last_touch_[memory(buffer, micro_batch)] = now_;
      }
    }
  }

  // --- waits

  void visit(Instruction& instruction, int micro_batch) {
    for (const BufferId buffer : instruction.waits) in_flight_.erase(memory(buffer, micro_batch));
    const bool is_collective = instruction.is<Collective>();
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        const auto found = in_flight_.find(memory(buffer, micro_batch));
        if (found == in_flight_.end()) continue;
        // Collectives run in order among themselves. Messages and transfers have no order.
        if (is_collective && found->second.only_collectives) continue;
        // Two instructions may read memory in flight. The last access waits, so that the memory can be reused.
        const bool writes = buffers == &instruction.outputs || found->second.is_written;
        if (!writes && last_touch_.at(found->first) > now_) continue;
        add_waits(instruction, found->second.buffers);
        in_flight_.erase(found);
      }
    }
    if (!is_asynchronous(instruction)) return;
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        InFlight& started = in_flight_[memory(buffer, micro_batch)];
        started.buffers.insert(buffer);
        started.only_collectives = started.only_collectives && is_collective;
        started.is_written = started.is_written || buffers == &instruction.outputs;
      }
    }
  }

  static void add_waits(Instruction& instruction, const std::set<BufferId>& buffers) {
    for (const BufferId buffer : buffers) {
      if (std::find(instruction.waits.begin(), instruction.waits.end(), buffer) == instruction.waits.end()) {
        instruction.waits.push_back(buffer);
      }
    }
  }

  Program& program_;
  std::uint64_t step_;
  std::vector<bool> is_sent_;  // by root buffer
  std::int64_t now_ = 0;
  std::map<Memory, std::int64_t> last_touch_;
  std::map<Memory, InFlight> in_flight_;
};

}  // namespace

void insert_waits(Program& program) {
  for (const StepVariant& variant : step_variants(program).variants) WaitInserter(program, variant.step).run();
}

}  // namespace strata::host
