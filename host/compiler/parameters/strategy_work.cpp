#include "compiler/parameters/strategy_work.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/check/emitted_check.hpp"
#include "compiler/optimizer_groups.hpp"
#include "strata/bucket_work.hpp"
#include "strata/gradient_work.hpp"

namespace strata::host {
namespace {

/// The work of one strategy on one bucket.
struct WorkPlace {
  ProgramBuilder& builder;
  const Bucket& bucket;
  const Stack& stack;
  /// Position of the strategy in the stack.
  std::size_t strategy = 0;
  /// What the strategy does, for messages: "works on".
  const char* work = "";
};

/// What the two contexts that the host passes to strategies at the end of a step have in common. They collect the
/// instructions.
template <class Context>
class StrategyWork : public Context {
 public:
  explicit StrategyWork(const WorkPlace& place) : at_(place) {}

  [[nodiscard]] const Mesh& mesh() const override { return at_.builder.mesh(); }
  [[nodiscard]] const std::string& label() const override { return at_.bucket.name; }
  [[nodiscard]] std::int64_t elements() const override { return at_.bucket.piece_elements(); }
  BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) override {
    if (const auto fault = find_fault(name, {elements})) refuse(*fault);
    return at_.builder.add_flat(name, BufferKind::communication, dtype, elements);
  }
  std::uint64_t communication_id(const std::string& label) override { return at_.builder.communication_id(label); }

 protected:
  [[noreturn]] void refuse(const std::string& what) const {
    throw at_.stack.strategies[at_.strategy].error(std::string(at_.work) + " '" + at_.bucket.name +
                                                   "' wrongly: " + what);
  }

  void require_new_state(const std::string& state) const {
    if (is_reserved_state(state)) refuse("the host keeps the state '" + state + "'");
    for (const std::size_t index : at_.bucket.parameters) {
      const StoredParameter& parameter = at_.builder.program().parameters[index];
      if (!parameter.states.contains(state)) continue;
      refuse("parameter '" + parameter.name + "' has a state '" + state + "' already");
    }
  }

  void add(Instruction instruction, std::vector<Instruction>& instructions) {
    if (const auto fault = find_fault(at_.builder.program(), instruction)) refuse(*fault);
    if (const auto fault = find_foreign_axis(instruction, at_.stack.axes[at_.strategy])) refuse(*fault);
    instructions.push_back(std::move(instruction));
  }

  WorkPlace at_;
  /// States outside of the device.
  StagedBuffers staged_;
};

void append(std::vector<Instruction>& instructions, std::vector<Instruction>& more) {
  std::move(more.begin(), more.end(), std::back_inserter(instructions));
}

/// The context for work on updated values.
class BucketWork final : public StrategyWork<BucketContext> {
 public:
  BucketWork(const WorkPlace& place, BufferId values) : StrategyWork(place), values_(values) {}

  [[nodiscard]] int fragment() const override { return at_.bucket.fragments.at(at_.strategy); }
  [[nodiscard]] DType dtype() const override { return at_.builder.buffer(values_).dtype; }
  [[nodiscard]] BufferId values() const override { return values_; }

  BufferId add_state(const BucketState& state) override {
    require_new_state(state.name);
    const BufferId home = add_optimizer_state(at_.builder, at_.bucket, state.name);
    for (const std::size_t index : at_.bucket.parameters) {
      StoredParameter& parameter = at_.builder.program().parameters[index];
      StateTraits traits{state.begins_as_value, parameter.unsynchronized};
      std::erase_if(traits.unsynchronized, [&](const Axis& axis) { return contains(state.shared_over, axis); });
      parameter.traits[state.name] = std::move(traits);
    }
    return staged_.add(at_.builder, home);
  }

  void emit_first(Instruction instruction) override { add(std::move(instruction), first_); }
  void emit(Instruction instruction) override { add(std::move(instruction), after_); }

  /// Inserts the instructions of the beginning of the step in the prologue. \return those after the update.
  std::vector<Instruction> finish() {
    std::vector<Instruction>& prologue = at_.builder.instructions(Task::Kind::prologue);
    std::vector<Instruction> after;
    for (const StagedBuffers::Copy& each : staged_.copies()) fetch(each, prologue, after);
    std::vector<Instruction> stores;
    for (const StagedBuffers::Copy& each : staged_.copies()) {
      for (const StepCondition& when : conditions(each, false)) push(each.from_device(), when, stores);
    }
    append(prologue, first_);
    append(after, after_);
    append(after, stores);
    return after;
  }

 private:
  /// The conditions under which instructions use the copy. One that always holds includes the others.
  [[nodiscard]] std::set<StepCondition> conditions(const StagedBuffers::Copy& state, bool only_first) const {
    std::set<StepCondition> conditions;
    for (const auto* instructions : {&first_, &after_}) {
      if (only_first && instructions != &first_) continue;
      for (const Instruction& each : *instructions) {
        for (const auto* buffers : {&each.inputs, &each.outputs}) {
          if (std::find(buffers->begin(), buffers->end(), state.copy) != buffers->end()) conditions.insert(each.when);
        }
      }
    }
    if (conditions.contains(StepCondition{})) return {StepCondition{}};
    return conditions;
  }

  /// Fetches a state at the beginning of steps that use it there, and after the update in the others.
  void fetch(const StagedBuffers::Copy& state, std::vector<Instruction>& prologue,
             std::vector<Instruction>& after) const {
    const std::set<StepCondition> early = conditions(state, true);
    for (const StepCondition& when : early) push(state.to_device(), when, prologue);
    for (const StepCondition& when : conditions(state, false)) {
      if (!early.contains(when) && !early.contains(StepCondition{})) push(state.to_device(), when, after);
    }
  }

  static void push(Instruction instruction, const StepCondition& when, std::vector<Instruction>& instructions) {
    instruction.when = when;
    instructions.push_back(std::move(instruction));
  }

  BufferId values_;
  std::vector<Instruction> first_;
  std::vector<Instruction> after_;
};

/// The context for the sum of gradients.
class BucketReduction final : public StrategyWork<ReductionContext> {
 public:
  BucketReduction(const WorkPlace& place, const PlacedModel& model, BufferId gradient, const GradientScalars& scalars)
      : StrategyWork(place), model_(model), gradient_(gradient), scalars_(scalars) {}

  [[nodiscard]] const std::vector<Axis>& axes() const override { return at_.stack.reduced; }
  [[nodiscard]] const ParameterDescription* parameter() const override {
    if (!at_.bucket.has_own_bucket) return nullptr;
    const StoredParameter& only = at_.builder.program().parameters[at_.bucket.parameters.front()];
    return &model_.groups.of(only.name).parameter;
  }
  [[nodiscard]] DType dtype() const override { return full_type(at_.bucket); }
  [[nodiscard]] BufferId gradient() const override { return gradient_; }
  [[nodiscard]] BufferId unit() const override { return scalars_.unit; }
  [[nodiscard]] BufferId scale() const override { return scalars_.scale; }

  BufferId add_state(const GradientState& state) override {
    require_new_state(state.name);
    if (state.dims && !at_.bucket.has_own_bucket) {
      refuse("state '" + state.name + "' has dimensions of its own, but the bucket may hold several parameters");
    }
    std::vector<ShardedDim> dims;
    Shape shape;
    for (const auto& [dim, size] : state.dims.value_or(std::vector<std::pair<Dim, std::int64_t>>{})) {
      dims.push_back({dim, size, {}, false});
      shape.push_back(size);
    }
    if (const auto fault = find_fault(state.name, shape)) refuse(*fault);
    const BufferId home = state.dims ? add_whole_state(at_.builder, at_.bucket, state.name, std::move(dims))
                                     : add_optimizer_state(at_.builder, at_.bucket, state.name);
    for (const std::size_t index : at_.bucket.parameters) {
      StoredParameter& parameter = at_.builder.program().parameters[index];
      std::vector<Axis> unsynchronized = parameter.unsynchronized;
      if (state.is_of_worker) unsynchronized.insert(unsynchronized.end(), axes().begin(), axes().end());
      parameter.traits[state.name] = {.unsynchronized = std::move(unsynchronized), .is_summed = state.is_of_worker};
    }
    return staged_.add(at_.builder, home);
  }

  [[nodiscard]] Instruction flat(const std::string& op, const std::string& name, std::vector<BufferId> operands,
                                 std::vector<BufferId> results, Attributes attributes) const override {
    Instruction instruction =
        flat_op(op, label() + " " + name, std::move(operands), std::move(results), std::move(attributes));
    instruction.as<Compute>()->iteration = piece_iteration(at_.builder.program(), at_.bucket);
    return instruction;
  }

  void sum_over_pieces(BufferId buffer, const std::string& name) override {
    const AxisSet axes = at_.bucket.piece_axes();
    if (axes.empty()) return;
    const auto count = static_cast<BufferId>(at_.builder.program().buffers.size());
    if (buffer < 0 || buffer >= count) refuse("it sums buffer %" + std::to_string(buffer) + ", which is not there");
    before_.push_back(at_.builder.all_reduce(buffer, in_mesh_order(mesh(), axes), std::nullopt,
                                             label() + " " + name + " of all pieces"));
  }

  void emit(Instruction instruction) override {
    const std::vector<BufferId>& outputs = instruction.outputs;
    writes_gradient_ |= contains(outputs, gradient_);
    add_always(std::move(instruction), before_);
  }
  void emit_after(Instruction instruction) override { add_always(std::move(instruction), after_); }

  void finish(ReducedGradients& all) {
    if (!writes_gradient_) refuse("no instruction writes the gradient");
    staged_.fetch({}, all.before);
    append(all.before, before_);
    append(all.after, after_);
    staged_.store(all.after);
  }

 private:
  void add_always(Instruction instruction, std::vector<Instruction>& instructions) {
    const bool is_always = instruction.when.is_always();
    add(std::move(instruction), instructions);
    if (is_always) return;
    refuse("instruction '" + instructions.back().name + "' is for some steps only; accepted: every step");
  }

  const PlacedModel& model_;
  BufferId gradient_;
  GradientScalars scalars_;
  std::vector<Instruction> before_;
  std::vector<Instruction> after_;
  bool writes_gradient_ = false;
};

/// Rounds the master copy to the values, in the steps in which `instructions` change it.
void round_values(const std::vector<BufferId>& updated, const std::string& name,
                  std::vector<Instruction>& instructions) {
  std::set<StepCondition> changed;
  for (const Instruction& each : instructions) {
    if (contains(each.outputs, updated[1])) changed.insert(each.when);
  }
  for (const StepCondition& when : changed) {
    instructions.push_back(weighted_sum(name + " rounded", {{1, updated[1]}}, updated[0]));
    instructions.back().when = when;
  }
}

}  // namespace

std::vector<Instruction> work_on_bucket(const Stack& stack, const Bucket& bucket, const std::vector<BufferId>& updated,
                                        ProgramBuilder& builder) {
  const bool has_master = bucket.has_master();
  std::vector<Instruction> all;
  for (std::size_t i = 0; i < stack.strategies.size(); ++i) {
    BucketWork work({builder, bucket, stack, i, "works on"}, updated[has_master ? 1 : 0]);
    stack.strategies[i].ask<ReplicaHooks>("work_on_bucket",
                                          [&](const ReplicaHooks& hooks) { hooks.work_on_bucket(work); });
    std::vector<Instruction> made = work.finish();
    if (has_master) round_values(updated, bucket.name, made);
    append(all, made);
  }
  return all;
}

ReducedGradients reduce_gradients(const PlacedModel& model, const std::vector<TrainedBucket>& buckets,
                                  const GradientScalars& scalars, ProgramBuilder& builder) {
  const Stack& stack = model.stack;
  const auto reducer = static_cast<std::size_t>(stack.reducer);
  ReducedGradients all;
  for (const TrainedBucket& each : buckets) {
    if (each.completion.completed.empty()) continue;
    BucketReduction reduction({builder, each.bucket, stack, reducer, "reduces the gradient of"}, model,
                              each.completion.completed.front(), scalars);
    stack.strategies[reducer].ask<GradientHooks>("reduce_gradient",
                                                 [&](const GradientHooks& hooks) { hooks.reduce_gradient(reduction); });
    reduction.finish(all);
  }
  return all;
}

}  // namespace strata::host
