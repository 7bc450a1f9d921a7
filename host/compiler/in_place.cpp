#include "compiler/in_place.hpp"

#include <algorithm>
#include <compare>
#include <utility>
#include <vector>

namespace strata::host {
namespace {

/// A place in a micro-batch's work: tasks of a kind run before those of the next.
struct Position {
  Task::Kind kind = Task::Kind::prologue;
  int chunk = 0;
  std::size_t at = 0;

  auto operator<=>(const Position&) const = default;
};

class InPlaceReuse {
 public:
  InPlaceReuse(Program& program, const OpRegistry& registry)
      : program_(program), registry_(registry), last_use_(program.buffers.size()) {
    for (const Task& task : program_.tasks) {
      for (std::size_t at = 0; at < task.instructions.size(); ++at) {
        for (const auto* buffers : {&task.instructions[at].inputs, &task.instructions[at].outputs}) {
          for (const BufferId buffer : *buffers) note_use(program_.root(buffer), {task.kind, task.chunk, at});
        }
      }
    }
  }

  void run() {
    for (const Task& task : program_.tasks) {
      for (std::size_t at = 0; at < task.instructions.size(); ++at) {
        if (!task.instructions[at].accumulate) visit(task.instructions[at], {task.kind, task.chunk, at});
      }
    }
  }

 private:
  void note_use(BufferId root, const Position& position) {
    Position& last = last_use_[static_cast<std::size_t>(root)];
    last = std::max(last, position);
  }

  void visit(const Instruction& instruction, const Position& position) {
    for (std::size_t result = 0; result < instruction.outputs.size(); ++result) {
      for (const int operand : candidates(instruction, static_cast<int>(result))) {
        if (may_take_over(instruction, position, static_cast<std::size_t>(operand), result)) {
          take_over(instruction.inputs[static_cast<std::size_t>(operand)], instruction.outputs[result]);
          break;
        }
      }
    }
  }

  [[nodiscard]] std::vector<int> candidates(const Instruction& instruction, int result) const {
    if (instruction.kind == InstructionKind::collective) {
      return instruction.collective == CollectiveKind::all_reduce ? std::vector<int>{0} : std::vector<int>{};
    }
    if (instruction.kind != InstructionKind::compute || !registry_.has(instruction.op)) return {};
    return registry_.get(instruction.op).in_place_operands(result);
  }

  [[nodiscard]] bool may_take_over(const Instruction& instruction, const Position& position, std::size_t operand,
                                   std::size_t result) const {
    const Buffer& from = program_.buffer(instruction.inputs.at(operand));
    const Buffer& to = program_.buffer(instruction.outputs[result]);
    const BufferId root = program_.root(from.id);
    const Buffer& memory = program_.buffer(root);
    if (memory.persistent || to.persistent || to.base >= 0) return false;
    if (from.shape != to.shape || from.dtype != to.dtype || memory.bytes() != to.bytes()) return false;
    if (last_use_[static_cast<std::size_t>(root)] > position) return false;
    const auto same_root = [&](BufferId other) { return program_.root(other) == root; };
    return std::count_if(instruction.inputs.begin(), instruction.inputs.end(), same_root) == 1 &&
           std::none_of(instruction.outputs.begin(), instruction.outputs.end(), same_root);
  }

  void take_over(BufferId from, BufferId to) {
    const BufferId root = program_.root(from);
    program_.buffers[static_cast<std::size_t>(to)].base = root;
    note_use(root, last_use_[static_cast<std::size_t>(to)]);
  }

  Program& program_;
  const OpRegistry& registry_;
  std::vector<Position> last_use_;  // by root buffer
};

}  // namespace

void reuse_operands_in_place(Program& program, const OpRegistry& registry) { InPlaceReuse(program, registry).run(); }

}  // namespace strata::host
