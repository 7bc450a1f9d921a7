#include "compiler/waits.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace strata::host {
namespace {

bool is_communication(const Instruction& instruction) {
  return instruction.kind == InstructionKind::collective || instruction.kind == InstructionKind::send ||
         instruction.kind == InstructionKind::receive;
}

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

  void visit(Instruction& instruction, int micro_batch) {
    if (is_communication(instruction)) {
      for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
        for (const BufferId buffer : *buffers) under_way_[memory(buffer, micro_batch)].insert(buffer);
      }
      return;
    }
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) {
        const auto found = under_way_.find(memory(buffer, micro_batch));
        if (found == under_way_.end()) continue;
        for (const BufferId waited : found->second) {
          if (std::find(instruction.waits.begin(), instruction.waits.end(), waited) == instruction.waits.end()) {
            instruction.waits.push_back(waited);
          }
        }
        under_way_.erase(found);
      }
    }
  }

  Program& program_;
  std::map<Memory, std::set<BufferId>> under_way_;
};

}  // namespace

void insert_waits(Program& program) { WaitInserter(program).run(); }

}  // namespace strata::host
