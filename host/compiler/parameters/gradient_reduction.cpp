#include "compiler/parameters/gradient_reduction.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "compiler/check/emitted_check.hpp"
#include "compiler/optimizer_groups.hpp"
#include "compiler/parameters/optimizer_states.hpp"
#include "compiler/placement/bucket_collectives.hpp"
#include "strata/error.hpp"
#include "strata/gradient_work.hpp"

namespace strata::host {
namespace {

/// The ReductionContext that the host passes to the strategy. It collects the instructions.
class BucketReduction final : public ReductionContext {
 public:
  struct Place {
    ProgramBuilder& builder;
    const TrainedBucket& trained;
    const GradientScalars& scalars;
    const UpdateRequest& request;
  };
  explicit BucketReduction(Place place)
      : at_(place),
        stack_(place.request.stack),
        bucket_(place.trained.bucket),
        gradient_(place.trained.completion.completed.front()) {}

  [[nodiscard]] const Mesh& mesh() const override { return at_.builder.mesh(); }
  [[nodiscard]] const std::vector<Axis>& axes() const override { return stack_.reduced; }
  [[nodiscard]] const std::string& label() const override { return bucket_.name; }
  [[nodiscard]] const ParameterDescription* parameter() const override {
    if (!bucket_.has_one_parameter) return nullptr;
    const StoredParameter& only = at_.builder.program().parameters[bucket_.parameters.front()];
    return &at_.request.groups.of(only.name).parameter;
  }
  [[nodiscard]] std::int64_t elements() const override { return bucket_.piece_elements(); }
  [[nodiscard]] DType dtype() const override { return full_type(bucket_); }
  [[nodiscard]] BufferId gradient() const override { return gradient_; }
  [[nodiscard]] BufferId unit() const override { return at_.scalars.unit; }
  [[nodiscard]] BufferId scale() const override { return at_.scalars.scale; }

  BufferId add_state(const GradientState& state) override {
    require_new(state.name);
    if (state.dims && !bucket_.has_one_parameter) {
      refuse("state '" + state.name + "' has dimensions of its own, but the bucket may hold several parameters");
    }
    std::vector<ShardedDim> dims;
    Shape shape;
    for (const auto& [dim, size] : state.dims.value_or(std::vector<std::pair<Dim, std::int64_t>>{})) {
      dims.push_back({dim, size, {}, false});
      shape.push_back(size);
    }
    if (const auto fault = find_fault(state.name, shape)) refuse(*fault);
    const BufferId home = state.dims ? add_whole_state(at_.builder, bucket_, state.name, std::move(dims))
                                     : add_optimizer_state(at_.builder, bucket_, state.name);
    for (const std::size_t index : bucket_.parameters) set_traits(at_.builder.program().parameters[index], state);
    return on_device(home);
  }

  BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) override {
    if (const auto fault = find_fault(name, {elements})) refuse(*fault);
    return at_.builder.add_flat(name, BufferKind::communication, dtype, elements);
  }

  [[nodiscard]] Instruction flat(const std::string& op, const std::string& name, std::vector<BufferId> operands,
                                 std::vector<BufferId> results, Attributes attributes) const override {
    Instruction instruction =
        flat_op(op, bucket_.name + " " + name, std::move(operands), std::move(results), std::move(attributes));
    instruction.as<Compute>()->iteration = piece_iteration(at_.builder.program(), bucket_);
    return instruction;
  }

  void sum_over_pieces(BufferId buffer, const std::string& name) override {
    const AxisSet axes = bucket_.piece_axes();
    if (axes.empty()) return;
    const auto count = static_cast<BufferId>(at_.builder.program().buffers.size());
    if (buffer < 0 || buffer >= count) refuse("it sums buffer %" + std::to_string(buffer) + ", which is not there");
    before_.push_back(at_.builder.all_reduce(buffer, in_mesh_order(mesh(), axes), std::nullopt,
                                             bucket_.name + " " + name + " of all pieces"));
  }

  std::uint64_t communication_id(const std::string& label) override { return at_.builder.communication_id(label); }
  void emit(Instruction instruction) override {
    writes_gradient_ |=
        std::find(instruction.outputs.begin(), instruction.outputs.end(), gradient_) != instruction.outputs.end();
    add(std::move(instruction), before_);
  }
  void emit_after(Instruction instruction) override { add(std::move(instruction), after_); }

  void finish(ReducedGradients& all) {
    if (!writes_gradient_) refuse("no instruction writes the gradient");
    for (const auto& [home, copy] : staged_) all.before.push_back(move(home, copy, " to the device"));
    std::move(before_.begin(), before_.end(), std::back_inserter(all.before));
    std::move(after_.begin(), after_.end(), std::back_inserter(all.after));
    for (const auto& [home, copy] : staged_) all.after.push_back(move(copy, home, " from the device"));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw stack_.strategies[reducer()].error("reduces the gradient of '" + bucket_.name + "' wrongly: " + what);
  }
  [[nodiscard]] std::size_t reducer() const { return static_cast<std::size_t>(stack_.reducer); }

  void require_new(const std::string& state) const {
    if (is_reserved_state(state)) refuse("the host keeps the state '" + state + "'");
    for (const std::size_t index : bucket_.parameters) {
      const StoredParameter& parameter = at_.builder.program().parameters[index];
      if (parameter.states.contains(state)) {
        refuse("parameter '" + parameter.name + "' has a state '" + state + "' already");
      }
    }
  }

  void set_traits(StoredParameter& parameter, const GradientState& state) const {
    std::vector<Axis> unsynchronized = parameter.unsynchronized;
    if (state.is_of_worker) unsynchronized.insert(unsynchronized.end(), axes().begin(), axes().end());
    parameter.traits[state.name] = {.unsynchronized = std::move(unsynchronized), .is_summed = state.is_of_worker};
  }

  /// The state, or its staging copy if it is stored outside of the device.
  BufferId on_device(BufferId home) {
    const Buffer stored = at_.builder.buffer(home);
    if (stored.place == MemoryPlace::device) return home;
    staged_.emplace_back(
        home, at_.builder.add_flat(stored.name + " on the device", stored.kind, stored.dtype, stored.elements()));
    return staged_.back().second;
  }

  [[nodiscard]] Instruction move(BufferId from, BufferId to, const std::string& how) const {
    const Buffer& home = at_.builder.buffer(at_.builder.buffer(from).place == MemoryPlace::device ? to : from);
    return transfer(from, to, home.name + how);
  }

  void add(Instruction instruction, std::vector<Instruction>& to) {
    if (const auto fault = find_fault(at_.builder.program(), instruction)) refuse(*fault);
    if (const auto fault = find_foreign_axis(instruction, stack_.axes[reducer()])) refuse(*fault);
    if (!instruction.when.is_always()) {
      refuse("instruction '" + instruction.name + "' is for some steps only; accepted: every step");
    }
    to.push_back(std::move(instruction));
  }

  Place at_;
  const Stack& stack_;
  const Bucket& bucket_;
  BufferId gradient_;
  /// States outside of the device, with their staging copies.
  std::vector<std::pair<BufferId, BufferId>> staged_;
  std::vector<Instruction> before_;
  std::vector<Instruction> after_;
  bool writes_gradient_ = false;
};

}  // namespace

ReducedGradients reduce_gradients(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets,
                                  const GradientScalars& scalars, const UpdateRequest& request) {
  const Stack& stack = request.stack;
  ReducedGradients all{.scale = scalars.scale};
  const NamedStrategy& reducer = stack.strategies[static_cast<std::size_t>(stack.reducer)];
  for (const TrainedBucket& each : buckets) {
    if (each.completion.completed.empty()) continue;
    BucketReduction reduction({builder, each, scalars, request});
    reducer.ask<GradientHooks>("reduce_gradient",
                               [&](const GradientHooks& hooks) { hooks.reduce_gradient(reduction); });
    reduction.finish(all);
  }
  return all;
}

}  // namespace strata::host
