#include <algorithm>
#include <iterator>
#include <utility>

#include "compiler/check/emitted_check.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/instructions.hpp"

namespace strata::host {
namespace {

/// The ConversionContext that the host passes to a strategy. It collects the replacing instructions.
class CollectiveReplacement final : public ConversionContext {
 public:
  CollectiveReplacement(ProgramBuilder& builder, const Instruction& collective, const PlannedCollective& planned,
                        const NamedStrategy& claimant)
      : builder_(builder), collective_(collective), planned_(planned), claimant_(claimant) {}

  [[nodiscard]] const Mesh& mesh() const override { return builder_.mesh(); }
  [[nodiscard]] const PlannedCollective& planned() const override { return planned_; }
  [[nodiscard]] const std::string& label() const override { return collective_.name; }
  [[nodiscard]] BufferId input() const override { return collective_.inputs.front(); }
  [[nodiscard]] BufferId output() const override { return collective_.outputs.front(); }
  BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) override {
    if (const auto fault = find_fault(name, {elements})) refuse(*fault);
    return builder_.add_flat(name, BufferKind::communication, dtype, elements);
  }
  std::uint64_t communication_id(const std::string& label) override { return builder_.communication_id(label); }
  void emit(Instruction instruction) override {
    if (const auto fault = find_fault(builder_.program(), instruction)) refuse(*fault);
    instruction.block = collective_.block;
    instruction.occurrence = collective_.occurrence;
    instruction.when = collective_.when;
    instructions.push_back(std::move(instruction));
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw claimant_.error("converts the collective '" + label() + "' wrongly: " + what);
  }

  std::vector<Instruction> instructions;

 private:
  ProgramBuilder& builder_;
  const Instruction& collective_;
  const PlannedCollective& planned_;
  const NamedStrategy& claimant_;
};

void require_conversion(const CollectiveReplacement& made) {
  const auto writes_output = [&](const Instruction& each) { return contains(each.outputs, made.output()); };
  if (std::ranges::none_of(made.instructions, writes_output)) {
    made.refuse("no instruction writes the output");
  }
  const std::vector<Axis>& planned = made.planned().axes;
  std::set<Axis> used;
  for (const Instruction& each : made.instructions) {
    for (const Axis& axis : communication_axes(each)) {
      if (!contains(planned, axis)) {
        made.refuse("it communicates over mesh axis '" + axis + "'; the collective is over " + join(planned, "+"));
      }
      used.insert(axis);
    }
  }
  for (const Axis& axis : planned) {
    if (!used.contains(axis)) made.refuse("it does not communicate over mesh axis '" + axis + "'");
  }
}

/// Converts the collectives of one program.
class Converter {
 public:
  Converter(ProgramBuilder& builder, const std::vector<NamedStrategy>& strategies)
      : builder_(builder), strategies_(strategies) {}

  std::set<std::string> run() {
    for (std::size_t task = 0; task < builder_.program().tasks.size(); ++task) convert_task(task);
    return std::move(converted_by_);
  }

 private:
  /// Instructions after a conversion's last communication. They are inserted before the first instruction that
  /// conflicts with their buffers.
  using Finish = std::vector<Instruction>;

  void convert_task(std::size_t index) {
    std::vector<Instruction> before = std::move(builder_.program().tasks[index].instructions);
    std::vector<Instruction> after;
    std::vector<Finish> pending;
    const auto finish = [&](const auto& is_due) {
      for (auto each = pending.begin(); each != pending.end();) {
        if (!is_due(*each)) {
          ++each;
          continue;
        }
        std::move(each->begin(), each->end(), std::back_inserter(after));
        each = pending.erase(each);
      }
    };
    for (Instruction& instruction : before) {
      std::vector<Instruction> made = convert(instruction);
      for (std::size_t i = 0; i < made.size(); ++i) {
        finish([&](const Finish& each) { return conflicts(each, made[i]); });
      }
      const auto split = made.size() == 1 ? made.cend() : after_last_asynchronous(made);
      const auto start = static_cast<std::size_t>(split - made.cbegin());
      std::move(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(start), std::back_inserter(after));
      if (start == made.size()) continue;
      pending.emplace_back(std::make_move_iterator(made.begin() + static_cast<std::ptrdiff_t>(start)),
                           std::make_move_iterator(made.end()));
    }
    finish([](const Finish&) { return true; });
    builder_.program().tasks[index].instructions = std::move(after);
  }

  /// The instructions that replace `instruction`: a conversion, or `instruction` itself.
  std::vector<Instruction> convert(Instruction& instruction) {
    const auto* collective = instruction.as<Collective>();
    if (collective == nullptr || !collective->content || !collective->members.empty()) return {std::move(instruction)};
    const Buffer& input = builder_.buffer(instruction.inputs.front());
    const PlannedCollective planned{collective->kind,
                                    *collective->content,
                                    collective->reduction,
                                    collective->axes,
                                    input.dtype,
                                    input.elements(),
                                    builder_.buffer(instruction.outputs.front()).elements()};
    const auto claim = find_claim(strategies_, "convert", "the collective '" + instruction.name + "'",
                                  [&](const NamedStrategy& each) { return each.strategy->convert(planned); });
    if (!claim) return {std::move(instruction)};
    CollectiveReplacement replacement(builder_, instruction, planned, *claim->claimant);
    claim->claimant->ask("convert", [&](const Strategy& /*strategy*/) { claim->decision(replacement); });
    require_conversion(replacement);
    converted_by_.insert(claim->claimant->name);
    return std::move(replacement.instructions);
  }

  /// True if `instruction` accesses memory that the finish writes, or writes memory that it reads.
  [[nodiscard]] bool conflicts(const Finish& finish, const Instruction& instruction) const {
    return std::ranges::any_of(finish, [&](const Instruction& each) {
      return share(each.outputs, instruction.inputs) || share(each.outputs, instruction.outputs) ||
             share(each.inputs, instruction.outputs);
    });
  }

  [[nodiscard]] bool share(const std::vector<BufferId>& a, const std::vector<BufferId>& b) const {
    return std::ranges::any_of(
        a, [&](BufferId one) { return std::ranges::any_of(b, [&](BufferId other) { return overlap(one, other); }); });
  }

  [[nodiscard]] bool overlap(BufferId a, BufferId b) const {
    const Program& program = builder_.program();
    if (program.root(a) != program.root(b)) return false;
    const auto [a_begin, a_end] = bytes_in_root(program, a);
    const auto [b_begin, b_end] = bytes_in_root(program, b);
    return a_begin < b_end && b_begin < a_end;
  }

  ProgramBuilder& builder_;
  const std::vector<NamedStrategy>& strategies_;
  std::set<std::string> converted_by_;
};

}  // namespace

std::set<std::string> convert_collectives(ProgramBuilder& builder, const std::vector<NamedStrategy>& strategies) {
  if (strategies.empty()) return {};
  return Converter(builder, strategies).run();
}

}  // namespace strata::host
