#include <algorithm>
#include <compare>
#include <string>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// A position in the work of one micro-batch on one chunk. Tasks run in the order of their kinds. Chunks have no order
/// that holds for every schedule, so memory that several chunks use is never reused.
struct Position {
  Task::Kind kind = Task::Kind::prologue;
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
          for (const BufferId buffer : *buffers) note_use(program_.root(buffer), {task.kind, at}, task.chunk);
        }
        if (!task.instructions[at].is<Send>()) continue;
        last_use_[static_cast<std::size_t>(program_.root(task.instructions[at].inputs.front()))].is_sent = true;
      }
    }
  }

  void run() {
    for (const Task& task : program_.tasks) {
      for (std::size_t at = 0; at < task.instructions.size(); ++at) {
        const auto* compute = task.instructions[at].as<Compute>();
        if (compute == nullptr || !compute->accumulate) visit(task.instructions[at], {task.kind, at});
      }
    }
  }

 private:
  struct LastUse {
    Position position;
    int chunk = -1;
    bool by_several_chunks = false;
    /// A message is sent from the memory. To take it over, an instruction would wait until another rank has received.
    bool is_sent = false;
  };

  void note_use(BufferId root, const Position& position, int chunk) {
    LastUse& last = last_use_[static_cast<std::size_t>(root)];
    last.by_several_chunks = last.by_several_chunks || (last.chunk >= 0 && last.chunk != chunk);
    last.chunk = chunk;
    last.position = std::max(last.position, position);
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
    if (const auto* collective = instruction.as<Collective>()) {
      return collective->kind == CollectiveKind::all_reduce ? std::vector<int>{0} : std::vector<int>{};
    }
    const auto* compute = instruction.as<Compute>();
    if (compute == nullptr || !registry_.has(compute->op)) return {};
    const std::vector<int> operands = registry_.get(compute->op).in_place_operands(result);
    const auto count = static_cast<int>(instruction.inputs.size());
    for (const int operand : operands) {
      if (operand >= 0 && operand < count) continue;
      throw ConfigurationError("op '" + compute->op + "' of " + registry_.origin(compute->op) + ": in_place_operands(" +
                               std::to_string(result) + ") names operand " + std::to_string(operand) +
                               "; the op has the operands 0 to " + std::to_string(count - 1));
    }
    return operands;
  }

  [[nodiscard]] bool may_take_over(const Instruction& instruction, const Position& position, std::size_t operand,
                                   std::size_t result) const {
    const Buffer& from = program_.buffer(instruction.inputs.at(operand));
    const Buffer& to = program_.buffer(instruction.outputs[result]);
    const BufferId root = program_.root(from.id);
    const Buffer& memory = program_.buffer(root);
    if (memory.persistent || to.persistent || to.base >= 0) return false;
    if (from.shape != to.shape || from.dtype != to.dtype || memory.bytes() != to.bytes()) return false;
    const LastUse& last = last_use_[static_cast<std::size_t>(root)];
    const LastUse& last_of_result = last_use_[static_cast<std::size_t>(to.id)];
    if (last.is_sent || last.by_several_chunks || last_of_result.by_several_chunks) return false;
    if (last.position > position) return false;
    const auto same_root = [&](BufferId other) { return program_.root(other) == root; };
    return std::ranges::count_if(instruction.inputs, same_root) == 1 &&
           std::ranges::none_of(instruction.outputs, same_root);
  }

  void take_over(BufferId from, BufferId to) {
    const BufferId root = program_.root(from);
    program_.buffers[static_cast<std::size_t>(to)].base = root;
    const LastUse& last = last_use_[static_cast<std::size_t>(to)];
    note_use(root, last.position, last.chunk);
    last_use_[static_cast<std::size_t>(root)].is_sent = last.is_sent;
  }

  Program& program_;
  const OpRegistry& registry_;
  std::vector<LastUse> last_use_;  // by root buffer
};

}  // namespace

void reuse_operands_in_place(Program& program, const OpRegistry& registry) { InPlaceReuse(program, registry).run(); }

}  // namespace strata::host
