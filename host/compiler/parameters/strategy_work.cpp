#include "compiler/parameters/strategy_work.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "compiler/check/emitted_check.hpp"
#include "compiler/optimizer_groups.hpp"
#include "compiler/parameters/optimizer_states.hpp"
#include "strata/bucket_work.hpp"

namespace strata::host {
namespace {

/// A state outside of the device, and its staging copy.
struct StagedState {
  BufferId home = -1;
  BufferId copy = -1;
};

/// The BucketContext that the host passes to one strategy. It collects the instructions.
class BucketWork final : public BucketContext {
 public:
  struct Place {
    ProgramBuilder& builder;
    const Bucket& bucket;
    BufferId values = -1;
    const Stack& stack;
    /// Position of the strategy in the stack.
    std::size_t strategy = 0;
  };
  explicit BucketWork(Place place) : at_(place), label_(place.bucket.name) {}

  [[nodiscard]] const Mesh& mesh() const override { return at_.builder.mesh(); }
  [[nodiscard]] const std::string& label() const override { return label_; }
  [[nodiscard]] int fragment() const override { return at_.bucket.fragments.at(at_.strategy); }
  [[nodiscard]] std::int64_t elements() const override { return at_.bucket.piece_elements(); }
  [[nodiscard]] DType dtype() const override { return at_.builder.buffer(at_.values).dtype; }
  [[nodiscard]] BufferId values() const override { return at_.values; }

  BufferId add_state(const BucketState& state) override {
    require_new(state);
    const BufferId home = add_optimizer_state(at_.builder, at_.bucket, state.name);
    for (const std::size_t index : at_.bucket.parameters) {
      StoredParameter& parameter = at_.builder.program().parameters[index];
      StateTraits traits{state.begins_as_value, parameter.unsynchronized};
      std::erase_if(traits.unsynchronized, [&](const Axis& axis) {
        return std::find(state.shared_over.begin(), state.shared_over.end(), axis) != state.shared_over.end();
      });
      parameter.traits[state.name] = std::move(traits);
    }
    const Buffer stored = at_.builder.buffer(home);
    if (stored.place == MemoryPlace::device) return home;
    const BufferId copy =
        at_.builder.add_flat(stored.name + " on the device", stored.kind, stored.dtype, stored.elements());
    staged_.push_back({home, copy});
    return copy;
  }

  BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) override {
    if (const auto fault = find_fault(name, {elements})) refuse(*fault);
    return at_.builder.add_flat(name, BufferKind::communication, dtype, elements);
  }
  std::uint64_t communication_id(const std::string& label) override { return at_.builder.communication_id(label); }
  void emit_first(Instruction instruction) override { add(std::move(instruction), first_); }
  void emit(Instruction instruction) override { add(std::move(instruction), after_); }

  /// Inserts the instructions of the beginning of the step in the prologue. \return those after the update.
  std::vector<Instruction> finish() {
    std::vector<Instruction>& prologue = at_.builder.task(Task::Kind::prologue).instructions;
    std::vector<Instruction> after;
    for (const StagedState& each : staged_) fetch(each, prologue, after);
    std::move(first_.begin(), first_.end(), std::back_inserter(prologue));
    std::move(after_.begin(), after_.end(), std::back_inserter(after));
    for (const StagedState& each : staged_) {
      for (const StepCondition& when : stored_when(each)) move(each.copy, each.home, " from the device", when, after);
    }
    return after;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw at_.stack.strategies[at_.strategy].error("works on '" + label_ + "' wrongly: " + what);
  }

  void require_new(const BucketState& state) const {
    if (is_reserved_state(state.name)) refuse("the host keeps the state '" + state.name + "'");
    for (const std::size_t index : at_.bucket.parameters) {
      const StoredParameter& parameter = at_.builder.program().parameters[index];
      if (!parameter.states.contains(state.name)) continue;
      refuse("parameter '" + parameter.name + "' has a state '" + state.name + "' already");
    }
  }

  void add(Instruction instruction, std::vector<Instruction>& to) {
    if (const auto fault = find_fault(at_.builder.program(), instruction)) refuse(*fault);
    if (const auto fault = find_foreign_axis(instruction, at_.stack.axes[at_.strategy])) refuse(*fault);
    note_uses(instruction, &to == &first_);
    to.push_back(std::move(instruction));
  }

  // --- transfers of states outside of the device

  struct Use {
    StepCondition when;
    bool is_first = false;
  };

  void note_uses(const Instruction& instruction, bool is_first) {
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId buffer : *buffers) uses_.emplace_back(buffer, Use{instruction.when, is_first});
    }
  }

  /// The conditions under which instructions use the copy. One that always holds includes the others.
  [[nodiscard]] std::set<StepCondition> conditions(const StagedState& state, bool only_first) const {
    std::set<StepCondition> conditions;
    for (const auto& [buffer, use] : uses_) {
      if (buffer == state.copy && (use.is_first || !only_first)) conditions.insert(use.when);
    }
    if (conditions.contains(StepCondition{})) return {StepCondition{}};
    return conditions;
  }
  [[nodiscard]] std::set<StepCondition> stored_when(const StagedState& state) const { return conditions(state, false); }

  /// Fetches a state at the beginning of steps that use it there, and after the update in the others.
  void fetch(const StagedState& state, std::vector<Instruction>& prologue, std::vector<Instruction>& after) const {
    const std::set<StepCondition> early = conditions(state, true);
    for (const StepCondition& when : early) move(state.home, state.copy, " to the device", when, prologue);
    for (const StepCondition& when : conditions(state, false)) {
      if (!early.contains(when) && !early.contains(StepCondition{})) {
        move(state.home, state.copy, " to the device", when, after);
      }
    }
  }

  void move(BufferId from, BufferId to, const std::string& how, const StepCondition& when,
            std::vector<Instruction>& instructions) const {
    const Buffer& home = at_.builder.buffer(at_.builder.buffer(from).place == MemoryPlace::device ? to : from);
    Instruction instruction = transfer(from, to, home.name + how);
    instruction.when = when;
    instructions.push_back(std::move(instruction));
  }

  Place at_;
  std::string label_;
  std::vector<StagedState> staged_;
  std::vector<std::pair<BufferId, Use>> uses_;
  std::vector<Instruction> first_;
  std::vector<Instruction> after_;
};

/// Rounds the master copy to the values, in the steps in which `instructions` change it.
void round_values(const std::vector<BufferId>& updated, const std::string& name,
                  std::vector<Instruction>& instructions) {
  std::set<StepCondition> changed;
  for (const Instruction& each : instructions) {
    if (std::find(each.outputs.begin(), each.outputs.end(), updated[1]) != each.outputs.end())
      changed.insert(each.when);
  }
  for (const StepCondition& when : changed) {
    instructions.push_back(weighted_sum(name + " rounded", {{1, updated[1]}}, updated[0]));
    instructions.back().when = when;
  }
}

}  // namespace

std::vector<Instruction> work_on_bucket(ProgramBuilder& builder, const Bucket& bucket,
                                        const std::vector<BufferId>& updated, const Stack& stack) {
  const bool has_master = bucket.has_master();
  std::vector<Instruction> all;
  for (std::size_t i = 0; i < stack.strategies.size(); ++i) {
    BucketWork work({builder, bucket, updated[has_master ? 1 : 0], stack, i});
    stack.strategies[i].ask<ReplicaHooks>("work_on_bucket",
                                          [&](const ReplicaHooks& hooks) { hooks.work_on_bucket(work); });
    std::vector<Instruction> made = work.finish();
    if (has_master) round_values(updated, bucket.name, made);
    std::move(made.begin(), made.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace strata::host
