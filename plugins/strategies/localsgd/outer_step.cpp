#include "outer_step.hpp"

#include <string>
#include <utility>

namespace localsgd {

using namespace strata;

namespace {

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

}  // namespace

void emit_outer_step(const Settings& settings, BucketContext& context) { OuterStep(settings, context).emit(); }

void define_outer_step(const Settings& settings, int fragment, DefinedReplicas& replicas) {
  DefinedOuterStep defined(settings, replicas);
  const bool applies = settings.applied(fragment).holds(replicas.step);
  if (settings.overlap && applies) defined.apply(settings.mixing);
  if (settings.computed(fragment).holds(replicas.step)) defined.compute();
  if (!settings.overlap && applies) defined.apply(0);
}

}  // namespace localsgd
