#include "compiler/passes/waits.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/check/communication_under_way.hpp"

namespace strata::host {
namespace {

/// Walks the schedule. A template collects the waits of all its instances: waiting for what is not under way costs
/// nothing.
class WaitInserter {
 public:
  explicit WaitInserter(Program& program) : program_(program), is_sent_(program.buffers.size(), false) {}

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

  /// What may still be read or written there.
  struct UnderWay {
    std::set<BufferId> buffers;
    bool only_collectives = true;
    bool is_written = false;
  };

  template <class Visit>
  void walk(const Visit& visit) {
    now_ = 0;
    for (const TaskInstance& instance : program_.schedule) {
      for (Instruction& instruction : program_.tasks[static_cast<std::size_t>(instance.task)].instructions) {
        visit(instruction, instance.micro_batch);
        ++now_;
      }
    }
  }

  // --- when memory that something asynchronous reads is touched for the last time

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
    for (const BufferId buffer : instruction.waits) under_way_.erase(memory(buffer, micro_batch));
    const bool is_collective = instruction.kind == InstructionKind::collective;
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        const auto found = under_way_.find(memory(buffer, micro_batch));
        if (found == under_way_.end()) continue;
        // Collectives keep their order among themselves; messages and transfers are outside of it.
        if (is_collective && found->second.only_collectives) continue;
        // Two may read the same memory; the last one waits, so that the memory can be used again.
        const bool writes = buffers == &instruction.outputs || found->second.is_written;
        if (!writes && last_touch_.at(found->first) > now_) continue;
        add_waits(instruction, found->second.buffers);
        under_way_.erase(found);
      }
    }
    if (!is_asynchronous(instruction)) return;
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        UnderWay& started = under_way_[memory(buffer, micro_batch)];
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
  std::vector<bool> is_sent_;  // by root buffer
  std::int64_t now_ = 0;
  std::map<Memory, std::int64_t> last_touch_;
  std::map<Memory, UnderWay> under_way_;
};

}  // namespace

void insert_waits(Program& program) { WaitInserter(program).run(); }

}  // namespace strata::host
