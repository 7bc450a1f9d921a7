#include "compiler/waits.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/communication_under_way.hpp"

namespace strata::host {
namespace {

/// Walks the schedule once. A template collects the waits of all its instances: waiting for what is not under way costs
/// nothing.
class WaitInserter {
 public:
  explicit WaitInserter(Program& program) : program_(program) {}

  void run() {
    for (const TaskInstance& instance : program_.schedule) {
      for (Instruction& instruction : program_.tasks[static_cast<std::size_t>(instance.task)].instructions) {
        visit(instruction, instance.micro_batch);
      }
    }
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
    bool has_message = false;
  };

  void visit(Instruction& instruction, int micro_batch) {
    const bool communicates = is_communication(instruction);
    const bool is_message = communicates && instruction.kind != InstructionKind::collective;
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        const auto found = under_way_.find(memory(buffer, micro_batch));
        if (found == under_way_.end()) continue;
        // Collectives keep their order among themselves; messages are outside of it.
        if (communicates && !is_message && !found->second.has_message) continue;
        add_waits(instruction, found->second.buffers);
        under_way_.erase(found);
      }
    }
    if (!communicates) return;
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        UnderWay& started = under_way_[memory(buffer, micro_batch)];
        started.buffers.insert(buffer);
        started.has_message = started.has_message || is_message;
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
  std::map<Memory, UnderWay> under_way_;
};

}  // namespace

void insert_waits(Program& program) { WaitInserter(program).run(); }

}  // namespace strata::host
