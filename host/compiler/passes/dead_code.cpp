#include <algorithm>
#include <vector>

#include "compiler/passes/passes.hpp"

namespace strata::host {
namespace {

class UnusedInstructions {
 public:
  explicit UnusedInstructions(Program& program) : program_(program), is_needed_(program.buffers.size(), false) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.persistent) need(buffer.id);
    }
    for (const auto& [name, buffer] : program.reports) need(buffer);
  }

  /// Repeats until nothing changes, because a task's operands may come from tasks before or after it in the list.
  void run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Task& task : program_.tasks) {
        for (auto each = task.instructions.rbegin(); each != task.instructions.rend(); ++each) {
          if (is_used(*each)) changed = need_operands(*each) || changed;
        }
      }
    }
    for (Task& task : program_.tasks) {
      std::erase_if(task.instructions, [this](const Instruction& each) { return !is_used(each); });
    }
  }

 private:
  [[nodiscard]] std::vector<bool>::reference flag(BufferId buffer) {
    return is_needed_[static_cast<std::size_t>(program_.root(buffer))];
  }

  bool need(BufferId buffer) {
    const bool fresh = !flag(buffer);
    flag(buffer) = true;
    return fresh;
  }

  [[nodiscard]] bool is_used(const Instruction& instruction) {
    if (instruction.is<Send>() || instruction.is<Receive>()) return true;
    return std::ranges::any_of(instruction.outputs, [this](BufferId output) { return bool(flag(output)); });
  }

  bool need_operands(const Instruction& instruction) {
    bool fresh = false;
    for (const BufferId input : instruction.inputs) fresh = need(input) || fresh;
    return fresh;
  }

  Program& program_;
  std::vector<bool> is_needed_;  // by root buffer
};

}  // namespace

void remove_unused_instructions(Program& program) { UnusedInstructions(program).run(); }

}  // namespace strata::host
