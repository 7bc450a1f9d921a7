#include "compiler/passes/fuse.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/program/op_instance.hpp"

namespace strata::host {
namespace {

/// Fuses within one task; knows from the whole program who else uses a buffer.
class TaskFuser {
 public:
  TaskFuser(Program& program, const Device& device, Task& task)
      : program_(program),
        device_(device),
        instructions_(task.instructions),
        removed_(task.instructions.size(), false) {
    for (const Task& each : program_.tasks) {
      for (std::size_t at = 0; at < each.instructions.size(); ++at) {
        for (const BufferId input : each.instructions[at].inputs) uses_[input].push_back({&each == &task, at});
      }
    }
    for (const auto& [name, buffer] : program_.reports) uses_[buffer].push_back({false, 0});
    for (std::size_t at = 0; at < instructions_.size(); ++at) {
      for (const BufferId output : instructions_[at].outputs) writers_[output].push_back(at);
    }
  }

  void run() {
    for (std::size_t at = 0; at < instructions_.size(); ++at) {
      if (removed_[at]) continue;
      if (is(at, "add")) fuse_bias(at);
      if (is(at, "add") && !removed_[at]) fuse_dropout(at);
      if (is(at, "activation")) fuse_activation(at);
      if (is(at, "activation_gradient")) fuse_activation_gradient(at);
      if (is(at, "sum")) fuse_sum(at);
    }
    std::vector<Instruction> kept;
    for (std::size_t at = 0; at < instructions_.size(); ++at) {
      if (!removed_[at]) kept.push_back(std::move(instructions_[at]));
    }
    instructions_ = std::move(kept);
  }

 private:
  struct Use {
    bool in_this_task;
    std::size_t at;
  };

  [[nodiscard]] bool is(std::size_t at, const char* op) const {
    return instructions_[at].kind == InstructionKind::compute && instructions_[at].op == op;
  }

  [[nodiscard]] bool is_supported(const Instruction& instruction) const {
    const OpInstance instance = describe_instruction(program_, instruction, program_.mesh.coordinates(0), 0);
    return !device_.unsupported(instance).has_value();
  }

  /// The instruction that writes `buffer`, if it is the only one, in this task, and writes nothing else.
  [[nodiscard]] std::optional<std::size_t> sole_writer(BufferId buffer) const {
    const auto writers = writers_.find(buffer);
    if (writers == writers_.end() || writers->second.size() != 1 || program_.buffer(buffer).persistent)
      return std::nullopt;
    const std::size_t at = writers->second.front();
    const Instruction& writer = instructions_[at];
    const bool fits =
        !removed_[at] && writer.kind == InstructionKind::compute && writer.outputs.size() == 1 && !writer.accumulate;
    return fits ? std::optional(at) : std::nullopt;
  }

  [[nodiscard]] bool is_used_only_at(BufferId buffer, std::size_t at) const {
    const auto& uses = uses_.at(buffer);
    return uses.size() == 1 && uses.front().in_this_task && uses.front().at == at;
  }

  [[nodiscard]] bool is_written_behind(BufferId buffer, std::size_t at) const {
    const auto writers = writers_.find(buffer);
    return writers != writers_.end() && writers->second.back() > at;
  }

  /// Whether an all-gather of this task brings `buffer`, maybe to be unpacked.
  [[nodiscard]] bool is_gathered(BufferId buffer) const {
    const auto writers = writers_.find(buffer);
    if (writers == writers_.end()) return false;
    const Instruction& writer = instructions_[writers->second.back()];
    if (writer.kind == InstructionKind::copy) return is_gathered(writer.inputs[0]);
    return writer.kind == InstructionKind::collective && writer.collective == CollectiveKind::all_gather;
  }

  /// linear -> t, add(t, bias) -> y   becomes   linear_bias -> y
  void fuse_bias(std::size_t at) {
    const Instruction& add = instructions_[at];
    const BufferId product = add.inputs[0];
    const BufferId bias = add.inputs[1];
    const auto writer = sole_writer(product);
    if (!writer || !is(*writer, "linear") || !is_used_only_at(product, at) || !program_.buffer(bias).persistent) return;
    const Dims& whole = add.operand_dims[0];
    const Dims& part = add.operand_dims[1];
    if (part.size() >= whole.size() || !std::equal(part.rbegin(), part.rend(), whole.rbegin())) return;
    Instruction fused = instructions_[*writer];
    fused.op = "linear_bias";
    fused.inputs.push_back(bias);
    fused.operand_dims.push_back(part);
    replace(*writer, std::move(fused), at);
  }

  /// dropout(x) -> t, add(residual, t) -> y   becomes   dropout_add(x, residual) -> y
  void fuse_dropout(std::size_t at) {
    const Instruction& add = instructions_[at];
    const BufferId branch = add.inputs[1];
    const auto writer = sole_writer(branch);
    if (!writer || !is(*writer, "dropout") || !is_used_only_at(branch, at)) return;
    if (add.operand_dims[0] != add.operand_dims[1]) return;
    Instruction fused = instructions_[*writer];
    fused.op = "dropout_add";
    fused.inputs.push_back(add.inputs[0]);
    fused.operand_dims.push_back(add.operand_dims[0]);
    fused.outputs = add.outputs;
    // The residual may be computed between the two.
    replace_later(*writer, std::move(fused), at);
  }

  /// linear_bias -> u, activation(u) -> y   becomes   linear_bias_activation -> y, and u where others read it
  void fuse_activation(std::size_t at) {
    const Instruction& activation = instructions_[at];
    const BufferId sum = activation.inputs[0];
    const auto writer = sole_writer(sum);
    if (!writer || !is(*writer, "linear_bias") || activation.accumulate) return;
    Instruction fused = instructions_[*writer];
    fused.op = "linear_bias_activation";
    fused.attributes.set("kind", activation.attributes.word("kind"));
    if (is_used_only_at(sum, at)) return replace(*writer, std::move(fused), at);
    fused.attributes.set("saves_input", true);
    fused.result_dims.push_back(fused.result_dims[0]);
    replace(*writer, std::move(fused), at, {sum});
  }

  /// linear -> t, activation_gradient(t, u) -> y   becomes   linear_activation_gradient -> y
  void fuse_activation_gradient(std::size_t at) {
    const Instruction& gradient = instructions_[at];
    const BufferId product = gradient.inputs[0];
    const auto writer = sole_writer(product);
    if (!writer || !is(*writer, "linear") || !is_used_only_at(product, at) || gradient.accumulate) return;
    Instruction fused = instructions_[*writer];
    fused.op = "linear_activation_gradient";
    fused.attributes.set("kind", gradient.attributes.word("kind"));
    fused.inputs.push_back(gradient.inputs[1]);
    fused.operand_dims.push_back(gradient.operand_dims[1]);
    fused.outputs = gradient.outputs;
    // What the activation read may be computed again between the two, and the gradient of the weight, which stands
    // there too, is the last to read what is as large as this result. But what a gather brings is multiplied first, in
    // pieces.
    if (is_gathered(fused.inputs[0]) && !is_written_behind(fused.inputs[2], *writer))
      return replace(*writer, std::move(fused), at);
    replace_later(*writer, std::move(fused), at);
  }

  /// a, b, … -> sum(a, b, …)   becomes   a, then b added to a, …
  void fuse_sum(std::size_t at) {
    const Instruction sum = instructions_[at];
    const auto base = first_term(sum, at);
    if (!base) return;
    std::vector<std::pair<std::size_t, Instruction>> changed;
    for (const BufferId term : sum.inputs) {
      if (term == *base) continue;
      const auto writer = sole_writer(term);
      if (!writer || !is_used_only_at(term, at) || *writer <= last_use_before(*base, at)) return;
      Instruction adding = instructions_[*writer];
      adding.outputs = {*base};
      adding.accumulate = true;
      if (!is_supported(adding)) return;
      changed.emplace_back(*writer, std::move(adding));
    }
    for (auto& [writer, instruction] : changed) {
      instructions_[writer] = std::move(instruction);
      writers_[*base].push_back(writer);
    }
    std::sort(writers_[*base].begin(), writers_[*base].end());
    rename(sum.outputs[0], *base);
    removed_[at] = true;
  }

  /// The term that is complete first and dies in the sum.
  [[nodiscard]] std::optional<BufferId> first_term(const Instruction& sum, std::size_t at) const {
    std::optional<BufferId> first;
    for (const BufferId term : sum.inputs) {
      if (std::count(sum.inputs.begin(), sum.inputs.end(), term) != 1 || program_.buffer(term).persistent)
        return std::nullopt;
      const auto writers = writers_.find(term);
      if (writers == writers_.end()) return std::nullopt;
      if (!first || writers->second.back() < writers_.at(*first).back()) first = term;
    }
    for (const Use& use : uses_.at(*first)) {
      if (!use.in_this_task || use.at > at) return std::nullopt;
    }
    return first;
  }

  /// The last instruction before `at` that reads or writes `buffer`.
  [[nodiscard]] std::size_t last_use_before(BufferId buffer, std::size_t at) const {
    std::size_t last = writers_.at(buffer).back();
    for (const Use& use : uses_.at(buffer)) {
      if (use.at < at) last = std::max(last, use.at);
    }
    return last;
  }

  /// Puts `fused` in the place of `first`, with the results of `second`, which goes, and `more` behind them.
  void replace(std::size_t first, Instruction fused, std::size_t second, const std::vector<BufferId>& more = {}) {
    fused.outputs = instructions_[second].outputs;
    fused.outputs.insert(fused.outputs.end(), more.begin(), more.end());
    if (!is_supported(fused)) return;
    instructions_[first] = std::move(fused);
    removed_[second] = true;
    move_uses(second, first);
    for (const BufferId output : instructions_[first].outputs) writers_[output] = {first};
  }

  /// Puts `fused` in the place of `second`, unless what `first`, which goes, reads is another by then.
  void replace_later(std::size_t first, Instruction fused, std::size_t second) {
    for (const BufferId input : instructions_[first].inputs) {
      if (is_written_behind(input, first)) return;
    }
    if (!is_supported(fused)) return;
    instructions_[second] = std::move(fused);
    removed_[first] = true;
    move_uses(first, second);
  }

  /// What `from` read is read at `to` now.
  void move_uses(std::size_t from, std::size_t to) {
    for (auto& [buffer, uses] : uses_) {
      for (Use& use : uses) {
        if (use.in_this_task && use.at == from) use.at = to;
      }
    }
  }

  void rename(BufferId from, BufferId to) {
    for (Task& task : program_.tasks) {
      for (Instruction& instruction : task.instructions)
        std::replace(instruction.inputs.begin(), instruction.inputs.end(), from, to);
    }
    for (auto& [name, buffer] : program_.reports) {
      if (buffer == from) buffer = to;
    }
    auto& uses = uses_[to];
    const auto moved = uses_.find(from);
    if (moved != uses_.end()) uses.insert(uses.end(), moved->second.begin(), moved->second.end());
    uses_.erase(from);
  }

  Program& program_;
  const Device& device_;
  std::vector<Instruction>& instructions_;
  std::vector<bool> removed_;
  std::map<BufferId, std::vector<Use>> uses_;
  std::map<BufferId, std::vector<std::size_t>> writers_;
};

}  // namespace

void fuse_instructions(Program& program, const Device& device) {
  for (Task& task : program.tasks) TaskFuser(program, device, task).run();
}

}  // namespace strata::host
