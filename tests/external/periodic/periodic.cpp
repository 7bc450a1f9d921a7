/// periodic: replicas train apart, and agree every few steps. They exchange in bf16 how far they have come, and keep
/// what the rounding lost for the next exchange (Basu et al., "Qsparse-local-SGD: Distributed SGD with Quantization,
/// Sparsification, and Local Computations", NeurIPS 2019).

#include "strata/half.hpp"
#include "strata/strategy.hpp"

namespace periodic {
namespace {

using namespace strata;

constexpr const char* kAxis = "replicas";

/// Replaces an all_reduce of numbers that fit bf16: gathers them from all replicas in bf16, and sums them here. The
/// buffers of a conversion end with the collective, so a conversion keeps no state. This one loses nothing:
/// work_on_bucket() rounds before the collective, and keeps the error.
void exchange_in_bf16(ConversionContext& context) {
  const PlannedCollective& planned = context.planned();
  const std::int64_t count = planned.input_elements;
  const std::int64_t replicas = context.mesh().size(planned.axes);
  const std::string& label = context.label();
  const BufferId own = context.add_flat(label + " in bf16", DType::bf16, count);
  const BufferId all = context.add_flat(label + " of all", DType::bf16, replicas * count);

  context.emit(weighted_sum(label + " shortened", {{1, context.input()}}, own));
  const std::string gather = label + " all_gather";
  context.emit(
      {.name = gather,
       .work =
           Collective{.kind = CollectiveKind::all_gather, .axes = planned.axes, .id = context.communication_id(gather)},
       .inputs = {own},
       .outputs = {all}});
  Compute sum{.op = "reduce_sum",
              .iteration = {{"replica", replicas, {}}, {"element", count, {}}},
              .operand_dims = {{"replica", "element"}},
              .result_dims = {{"element"}}};
  sum.attributes.set("result", "element");
  context.emit({.name = label + " summed", .work = std::move(sum), .inputs = {all}, .outputs = {context.output()}});
}

class Periodic final : public Strategy, public ReplicaHooks {
 public:
  Periodic(int size, std::int64_t steps) : size_(size), steps_(steps) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{kAxis, size_}}; }
  [[nodiscard]] std::vector<Rule> rules() const override { return {{"batch", kAxis, 20, Distribution::block, {}}}; }

  /// The host sums no gradients over this axis, so replicas drift apart.
  [[nodiscard]] std::vector<Axis> unsynchronized_axes() const override { return {kAxis}; }

  /// Once per bucket of parameters, after the update: the agreement in every `steps`-th step.
  void work_on_bucket(BucketContext& context) const override {
    if (size_ == 1) return;
    const std::string& label = context.label();
    const auto emit = [&](Instruction instruction) {
      instruction.when = last_of_period();
      context.emit(std::move(instruction));
    };
    // Text generation reads values from a state of this name if the replicas of a checkpoint differ.
    const BufferId agreed = context.add_state(
        {.name = std::string(kAgreedState) + "_periodic", .begins_as_value = true, .shared_over = {kAxis}});
    // Each replica has its own.
    const BufferId error = context.add_state({.name = "periodic_error"});
    const BufferId sent = context.add_flat(label + " sent", DType::bf16, context.elements());
    const BufferId sum = context.add_flat(label + " way", context.dtype(), context.elements());

    emit(weighted_sum(label + " way and error", {{1, error}, {1, context.values()}, {-1, agreed}}, error));
    emit(weighted_sum(label + " rounded", {{1, error}}, sent));
    emit(weighted_sum(label + " rounded way", {{1, sent}}, sum));
    emit(weighted_sum(label + " error", {{1, error}, {-1, sum}}, error));
    // `content` offers the collective to Strategy::convert of every strategy.
    const std::string all_reduce = label + " way all_reduce " + kAxis;
    emit({.name = all_reduce,
          .work = Collective{.kind = CollectiveKind::all_reduce,
                             .axes = {kAxis},
                             .id = context.communication_id(all_reduce),
                             .content = BufferKind::gradient},
          .inputs = {sum},
          .outputs = {sum}});
    emit(weighted_sum(label + " agreement", {{1, agreed}, {1.0 / size_, sum}}, agreed));
    emit(weighted_sum(label + " agreed values", {{1, agreed}}, context.values()));
  }

  /// Claims the all_reduce of work_on_bucket(). The host sums no gradients over the axis, so no other fits.
  [[nodiscard]] Conversion convert(const PlannedCollective& collective) const override {
    if (collective.kind != CollectiveKind::all_reduce || collective.content != BufferKind::gradient) return {};
    if (collective.axes != std::vector<Axis>{kAxis}) return {};
    return exchange_in_bf16;
  }

  /// The same for one whole parameter in plain code. `strata verify` compares the two.
  void define(DefinedReplicas& replicas) const override {
    if (!last_of_period().holds(replicas.step)) return;
    std::vector<double>& agreed = replicas.states["agreed"];
    if (agreed.empty()) agreed = replicas.initial;
    std::vector<double> sum(agreed.size());
    for (std::size_t replica = 0; replica < replicas.values.size(); ++replica) {
      std::vector<double>& error = replicas.states["error of replica " + std::to_string(replica)];
      error.resize(agreed.size());
      for (std::size_t i = 0; i < agreed.size(); ++i) {
        const double way = error[i] + replicas.values[replica][i] - agreed[i];
        const double sent = from_bf16(to_bf16(static_cast<float>(way)));
        error[i] = way - sent;
        sum[i] += sent;
      }
    }
    for (std::size_t i = 0; i < agreed.size(); ++i) agreed[i] += sum[i] / size_;
    for (std::vector<double>& values : replicas.values) values = agreed;
  }

 private:
  /// The steps steps - 1, 2 * steps - 1, …
  [[nodiscard]] StepCondition last_of_period() const { return {.period = steps_, .phase = steps_ - 1}; }

  int size_;
  std::int64_t steps_;
};

class PeriodicFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<Periodic>(static_cast<int>(options.integer("size")), options.integer("steps"));
  }

 private:
  OptionSchema schema_{option::axis_size("Replicas: ranks along the axis 'replicas'."),
                       {.name = "steps",
                        .type = OptionType::integer,
                        .default_value = OptionValue(std::int64_t{8}),
                        .documentation = "Steps from one agreement to the next.",
                        .minimum = 1,
                        .maximum = 65536,
                        .role = OptionRole::period}};
};

}  // namespace
}  // namespace periodic

STRATA_PLUGIN(strategy, "periodic", "1.0.0", "MIT", "Replicas that agree every few steps, in bf16 with error feedback.",
              periodic::PeriodicFactory);
