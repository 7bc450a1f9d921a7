#include <cstdint>
#include <string>
#include <utility>

#include "shared/wire_format.hpp"
#include "strata/bucket_work.hpp"
#include "strata/error.hpp"
#include "strata/lowering.hpp"
#include "strata/plugin.hpp"
#include "strata/program.hpp"
#include "strata/strategy.hpp"

namespace localsgd {
namespace {

using namespace strata;

/// The plugin's options.
struct Settings {
  std::string axis;
  int size = 1;
  /// Inner steps between two outer steps of a parameter.
  std::int64_t steps = 1;
  double outer_lr = 1;
  double outer_momentum = 0;
  bool nesterov = true;
  int fragments = 1;
  bool overlap = false;
  double mixing = 0.5;
  /// Bits of an element of an outer gradient in its exchange; 0: it is exchanged in its own type.
  int bits = 0;
  /// True: gradients in f64 are exchanged in f64, so that a verification is exact.
  bool spares_f64 = true;

  /// The steps in which a fragment's outer step is applied. Fragments take turns, and the last one is applied in the
  /// last of `steps` steps.
  [[nodiscard]] StepCondition applied(int fragment) const { return {steps, (fragment + 1) * steps / fragments - 1}; }
  /// The steps in which its outer gradient is computed: with overlap the steps before.
  [[nodiscard]] StepCondition computed(int fragment) const {
    return {steps, applied(fragment).phase - (overlap ? 1 : 0)};
  }
};

OptionSchema option_schema() {
  return {
      option::axis_size("Ranks along the axis: replicas that train apart between outer steps."),
      option::axis_name("replica"),
      option::with_role(OptionRole::period, option::integer("steps", 100, 1, 1 << 20,
                                                            "Inner steps between two outer steps of a parameter.")),
      option::number("outer_lr", 0.7, 0, 100,
                     "Learning rate of the outer steps; 1 without momentum averages the replicas."),
      option::number("outer_momentum", 0.9, 0, 0.9999, "Momentum of the outer steps; 0 keeps no momentum."),
      option::boolean("nesterov", true, "Use Nesterov momentum in outer steps."),
      option::integer("fragments", 1, 1, 65536,
                      "Groups of blocks that take their outer steps in turns, block i in group i modulo this number. "
                      "It divides the peak of the traffic."),
      option::boolean("overlap", false,
                      "Exchange outer gradients during the step after they were computed, and apply them at its end."),
      option::number("mixing", 0.5, 0, 1,
                     "With overlap: the share of a replica's own values that an outer step keeps."),
      option::word("outer_gradients", "f32",
                   "How outer gradients are exchanged: f32, or as 8- or 4-bit integers with one scale per block.",
                   {"f32", "int8", "int4"}),
      option::word("quantization", "on",
                   "Whether outer gradients are quantised: on (but not in f64 runs, so that they are exact) or "
                   "always.",
                   {"on", "always"})};
}

/// \throws OptionError if options contradict each other.
Settings read_settings(const Options& options) {
  Settings settings;
  settings.axis = options.word("axis");
  settings.size = static_cast<int>(options.integer("size"));
  settings.steps = options.integer("steps");
  settings.outer_lr = options.number("outer_lr");
  settings.outer_momentum = options.number("outer_momentum");
  settings.nesterov = options.boolean("nesterov");
  settings.fragments = static_cast<int>(options.integer("fragments"));
  settings.overlap = options.boolean("overlap");
  settings.mixing = options.number("mixing");
  const std::string& type = options.word("outer_gradients");
  if (type != "f32") settings.bits = type == "int8" ? 8 : 4;
  settings.spares_f64 = options.word("quantization") == "on";
  const std::int64_t shortest = std::int64_t{settings.fragments} * (settings.overlap ? 2 : 1);
  if (settings.steps < shortest) {
    throw OptionError(
        "steps", "found " + std::to_string(settings.steps) + " with fragments = " + std::to_string(settings.fragments) +
                     (settings.overlap ? " and overlap" : "") + "; accepted: " + std::to_string(shortest) + " or more");
  }
  return settings;
}

/// Emits the outer step of one bucket.
class OuterStep {
 public:
  OuterStep(const Settings& settings, BucketContext& context)
      : settings_(settings),
        context_(context),
        computed_(settings.computed(context.fragment())),
        applied_(settings.applied(context.fragment())),
        agreed_(context.add_state(
            {std::string(kAgreedState) + "_" + settings.axis, /*begins_as_value=*/true, {settings.axis}})) {
    if (settings.outer_momentum > 0) momentum_ = context.add_state({"momentum_" + settings.axis, false, own_axis()});
    gradient_ = settings.overlap
                    ? context.add_state({"gradient_" + settings.axis, false, {}})
                    : context.add_flat(context.label() + " outer gradient", context.dtype(), context.elements());
  }

  void emit() {
    if (settings_.overlap && settings_.size > 1) context_.emit_first(sum_of_replicas());
    // In a step that both applies and computes, the gradient that is applied must be read first.
    if (settings_.overlap) apply();
    emit_sum("outer gradient", {{1, agreed_}, {-1, context_.values()}}, gradient_, computed_);
    if (!settings_.overlap) {
      if (settings_.size > 1) context_.emit(sum_of_replicas());
      apply();
    }
  }

 private:
  [[nodiscard]] std::vector<Axis> own_axis() const { return {settings_.axis}; }

  void emit_sum(const std::string& what, const std::vector<WeightedTerm>& terms, BufferId into,
                const StepCondition& when) {
    Instruction instruction = weighted_sum(context_.label() + " " + what, terms, into);
    instruction.when = when;
    context_.emit(std::move(instruction));
  }

  /// Sums the outer gradients of the replicas in place.
  [[nodiscard]] Instruction sum_of_replicas() const {
    const std::string name = context_.label() + " outer gradient all_reduce " + settings_.axis;
    return {.name = name,
            .work = Collective{.kind = CollectiveKind::all_reduce,
                               .axes = own_axis(),
                               .id = context_.communication_id(name),
                               .content = BufferKind::gradient},
            .inputs = {gradient_},
            .outputs = {gradient_},
            .when = applied_};
  }

  void apply() {
    const double mean = 1.0 / settings_.size;
    const double lr = settings_.outer_lr;
    const double mu = settings_.outer_momentum;
    std::vector<WeightedTerm> step = {{1, agreed_}};
    if (momentum_ < 0 || settings_.nesterov) step.push_back({-lr * mean, gradient_});
    if (momentum_ >= 0) {
      emit_sum("outer momentum", {{mu, momentum_}, {mean, gradient_}}, momentum_, applied_);
      step.push_back({settings_.nesterov ? -lr * mu : -lr, momentum_});
    }
    emit_sum("outer step", step, agreed_, applied_);
    if (settings_.overlap) {
      emit_sum("mixed", {{settings_.mixing, context_.values()}, {1 - settings_.mixing, agreed_}}, context_.values(),
               applied_);
    } else {
      emit_sum("agreed", {{1, agreed_}}, context_.values(), applied_);
    }
  }

  const Settings& settings_;
  BucketContext& context_;
  StepCondition computed_;
  StepCondition applied_;
  BufferId agreed_;
  BufferId momentum_ = -1;
  BufferId gradient_ = -1;
};

/// The definition for one parameter.
class DefinedOuterStep {
 public:
  DefinedOuterStep(const Settings& settings, DefinedReplicas& replicas)
      : settings_(settings), replicas_(replicas), agreed_(replicas.states["agreed"]) {
    if (agreed_.empty()) agreed_ = replicas.initial;
    momentum_ = &replicas.states["momentum"];
    momentum_->resize(agreed_.size());
    gradient_ = &replicas.states["gradient"];
    gradient_->resize(agreed_.size());
  }

  /// gradient = agreed - mean of the replicas
  void compute() {
    for (std::size_t i = 0; i < agreed_.size(); ++i) {
      double sum = 0;
      for (const auto& values : replicas_.values) sum += values[i];
      (*gradient_)[i] = agreed_[i] - sum / static_cast<double>(replicas_.values.size());
    }
  }

  /// One step of gradient descent of the agreed values, of which each replica takes the share 1 - `own`.
  void apply(double own) {
    for (std::size_t i = 0; i < agreed_.size(); ++i) {
      const double gradient = (*gradient_)[i];
      double& momentum = (*momentum_)[i];
      momentum = settings_.outer_momentum * momentum + gradient;
      const bool looks_ahead = settings_.nesterov || settings_.outer_momentum == 0;
      agreed_[i] -= settings_.outer_lr * (looks_ahead ? gradient + settings_.outer_momentum * momentum : momentum);
      for (auto& values : replicas_.values) values[i] = own * values[i] + (1 - own) * agreed_[i];
    }
  }

 private:
  const Settings& settings_;
  DefinedReplicas& replicas_;
  std::vector<double>& agreed_;
  std::vector<double>* momentum_;
  std::vector<double>* gradient_;
};

/// Numbers that share a scale.
constexpr std::int64_t kBlock = 256;

void exchange(ConversionContext& context, int bits) {
  const PlannedCollective& planned = context.planned();
  const wire::WireFormat format(context, BlockQuantization{bits, kBlock}, planned.input_elements);
  const wire::EncodedNumbers own = format.encode({context.input(), planned.dtype, 1});
  const std::int64_t replicas = context.mesh().size(planned.axes);
  format.add_up(format.gather(own, planned.axes, replicas), {context.output(), planned.dtype, 1});
}

/// The exchange of outer gradients as integers with one scale per block. Empty for collectives that are none. Every
/// replica quantises its own gradient once, all gather the integers of all, and add them up in f32. So all have the
/// same sum, and no sum is quantised again. A replica sends (n - 1) times its integers, which is less than an
/// all_reduce in f32 for up to 8 replicas with 8 bits, and for up to 16 with 4 bits.
///
/// The error of a quantisation is not kept for the next one: replicas continue from the agreed values, and Douillard et
/// al. (2025) found 4 bits without error feedback to train as well as f32.
Conversion quantized_exchange(const Settings& settings, const PlannedCollective& collective) {
  const bool is_exchange = collective.kind == CollectiveKind::all_reduce &&
                           collective.content == BufferKind::gradient &&
                           collective.axes == std::vector<Axis>{settings.axis};
  if (!is_exchange || settings.bits == 0) return {};
  if (collective.dtype == DType::f64 && settings.spares_f64) return {};
  return [bits = settings.bits](ConversionContext& context) { exchange(context, bits); };
}

/// Local SGD with an outer optimizer (DiLoCo: Douillard et al., "DiLoCo: Distributed Low-Communication Training of
/// Language Models", 2023). Replicas train apart for some inner steps. The outer gradient is how far they have moved on
/// average. An outer step of gradient descent with Nesterov momentum follows it, and all replicas continue from there.
///
/// Fragments and overlap are those of Douillard et al., "Streaming DiLoCo with overlapping communication", 2025: groups
/// of blocks take turns, and an exchange takes the time of a step, whose own progress is mixed in.
class LocalSgd final : public Strategy, public ReplicaHooks {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit LocalSgd(const Options& options) : settings_(read_settings(options)) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{settings_.axis, settings_.size}}; }

  [[nodiscard]] std::vector<Rule> rules() const override {
    return {{"batch", settings_.axis, 20, Distribution::block, {}}};
  }

  [[nodiscard]] std::vector<Axis> unsynchronized_axes() const override { return {settings_.axis}; }

  /// Twice that of two hops with 4 bits, since the momentum of outer steps amplifies it.
  [[nodiscard]] double gradient_error() const override { return settings_.bits == 0 ? 0 : 4.0 / 14; }

  [[nodiscard]] Conversion convert(const PlannedCollective& collective) const override {
    return quantized_exchange(settings_, collective);
  }

  [[nodiscard]] int fragment(const ParameterDescription& parameter) const override {
    return parameter.block % settings_.fragments;
  }

  void work_on_bucket(BucketContext& context) const override { OuterStep(settings_, context).emit(); }

  void define(DefinedReplicas& replicas) const override {
    const int number = fragment(replicas.parameter);
    DefinedOuterStep defined(settings_, replicas);
    const bool applies = settings_.applied(number).holds(replicas.step);
    if (settings_.overlap && applies) defined.apply(settings_.mixing);
    if (settings_.computed(number).holds(replicas.step)) defined.compute();
    if (!settings_.overlap && applies) defined.apply(0);
  }

 private:
  Settings settings_;
};

using LocalSgdFactory = FactoryOf<StrategyFactory, LocalSgd>;

}  // namespace
}  // namespace localsgd

STRATA_PLUGIN(strategy, "localsgd", "0.1.0", "Apache-2.0",
              "Local SGD and DiLoCo: replicas train apart and take outer steps together.", localsgd::LocalSgdFactory);
