#include "verify/defined_run.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/initialize.hpp"
#include "train/loss_scaler.hpp"
#include "verify/defined_reduction.hpp"
#include "verify/evaluation_alone.hpp"

namespace strata::host {
namespace {

/// The definition of a whole run.
class DefinedRun {
 public:
  DefinedRun(const Compiled& single, Executor& executor, const OptimizerSettings& optimizer,
             const SimulatedReplicas& replicas)
      : executor_(executor),
        replicas_(replicas),
        scaler_(single),
        average_decay_(optimizer.average_decay),
        clip_(optimizer.clip),
        values_(static_cast<std::size_t>(replicas.count()), initial_values()),
        averages_(optimizer.average_decay > 0 ? values_ : std::vector<ParameterValues>{}),
        exchange_(replicas, single.groups, values_.front()) {
    for (int i = 0; i < replicas.count(); ++i) {
      optimizers_.emplace_back(optimizer, single.groups);
      reductions_.emplace_back(replicas, single.groups, executor.program());
    }
  }

  void step(std::uint64_t step, double learning_rate, InputSource& inputs, StackResult& result) {
    const StepContext context{.step = step,
                              .learning_rate = learning_rate,
                              .weight_decay_factor = verified_weight_decay_factor(step),
                              .loss_scale = scaler_.factor(),
                              .skipped_steps = scaler_.state().skipped_steps};
    double loss = 0;
    double count = 0;
    double norm = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      write(values_[i]);
      const ReplicaStep of_replica = compute(i, context, inputs);
      if (of_replica.gradients) {
        optimizers_[i].update(executor_.program(), *of_replica.gradients, context, values_[i]);
      }
      loss += of_replica.loss;
      count += of_replica.count;
      norm += of_replica.norm / static_cast<double>(values_.size());
    }
    exchange_.run(step, values_);
    for (std::size_t i = 0; i < averages_.size(); ++i) move_average(values_[i], averages_[i]);
    scaler_.skips(norm);
    result.losses.push_back(loss / count);
    result.gradient_norms.push_back(norm);
  }

  /// Evaluates the parameters of each replica, or their averages, on that replica's samples. `evaluation` shares its
  /// parameters with the training step.
  void evaluate(Executor& evaluation, std::uint64_t pass, bool reads_averages, InputSource& inputs,
                StackResult& result) {
    double loss = 0;
    double count = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      write(reads_averages ? averages_[i] : values_[i]);
      for (int worker = 0; worker < replicas_.workers.rank_count(); ++worker) {
        ReplicaInputs of_worker(inputs, replicas_, replicas_.part(static_cast<int>(i), worker));
        const Reports reports = evaluation.run(pass, 0, of_worker);
        loss += reports.at("loss");
        count += reports.at("count");
      }
    }
    result.evaluations.push_back(loss / count);
  }

  /// The parameters of all replicas, one after another. Parameters that no optimizer updates are there once.
  void collect(StackResult& result) {
    for (const StoredParameter& parameter : executor_.program().parameters) {
      if (!is_updated(parameter)) result.parameters[parameter.name] = read_values(executor_, parameter.value);
    }
    for (const ParameterValues& values : values_) append(values, result.parameters);
    for (const ParameterValues& averages : averages_) append(averages, result.averages);
  }

 private:
  static void append(const ParameterValues& values, WholeTensors& tensors) {
    for (const auto& [name, each] : values) {
      std::vector<double>& whole = tensors[name];
      whole.insert(whole.end(), each.begin(), each.end());
    }
  }

  void move_average(const ParameterValues& values, ParameterValues& averages) const {
    for (auto& [name, average] : averages) {
      const std::vector<double>& of = values.at(name);
      for (std::size_t i = 0; i < of.size(); ++i)
        average[i] = average_decay_ * average[i] + (1 - average_decay_) * of[i];
    }
  }

  /// Loss and count are sums over the tokens of a replica. The gradients are scaled, and empty if they are not finite.
  struct ReplicaStep {
    double loss = 0;
    double count = 0;
    double norm = 0;
    std::optional<ParameterValues> gradients;
  };

  ReplicaStep compute(std::size_t replica, const StepContext& context, InputSource& inputs) {
    ReplicaStep step;
    std::vector<ParameterValues> sums;
    double scale = 0;
    for (int worker = 0; worker < replicas_.workers.rank_count(); ++worker) {
      ReplicaInputs of_worker(inputs, replicas_, replicas_.part(static_cast<int>(replica), worker));
      const Reports reports = executor_.run(context, of_worker);
      step.loss += reports.at("loss");
      step.count += reports.at("count");
      step.norm = reports.at("grad_norm");
      scale = reports.at("gradient_scale");
      sums.push_back(read_gradients(executor_));
    }
    if (replicas_.reducer < 0) {
      step.gradients = std::move(sums.front());
    } else {
      const double unit = step.count > 0 ? 1 / (step.count * context.loss_scale) : 0;
      step.gradients = reductions_[replica].run(sums, unit);
      step.norm = DefinedReduction::norm(*step.gradients);
      scale = clip_ > 0 ? std::min(1.0, clip_ / (step.norm + 1e-6)) : 1.0;
      if (!std::isfinite(step.norm) || step.count == 0) scale = std::nan("");
    }
    for (auto& [name, gradient] : *step.gradients) {
      for (double& each : gradient) each *= scale;
    }
    if (!std::isfinite(scale)) step.gradients.reset();
    return step;
  }

  [[nodiscard]] ParameterValues initial_values() {
    ParameterValues values;
    for (const StoredParameter& parameter : executor_.program().parameters) {
      if (is_updated(parameter)) values[parameter.name] = read_values(executor_, parameter.value);
    }
    return values;
  }

  void write(const ParameterValues& values) {
    for (const StoredParameter& parameter : executor_.program().parameters) {
      if (is_updated(parameter)) write_values(executor_, parameter.value, values.at(parameter.name));
    }
  }

  Executor& executor_;
  const SimulatedReplicas& replicas_;
  LossScaler scaler_;
  double average_decay_;
  double clip_;
  std::vector<ParameterValues> values_;    // by replica
  std::vector<ParameterValues> averages_;  // by replica; empty if the run keeps none
  DefinedExchange exchange_;
  std::vector<DefinedOptimizer> optimizers_;  // by replica
  std::vector<DefinedReduction> reductions_;  // by replica
};

}  // namespace

StackResult run_definition(const Compiled& single, World& world, const MakeDevice& make_device,
                           const StackSettings& settings, const OptimizerSettings& optimizer,
                           const SimulatedReplicas& replicas, InputSource& inputs) {
  StackResult result;
  run_rank_threads(world, make_device, [&](Device& device, Communicator& communicator) {
    const MemoryPlan& plan = single.plan(0);
    const Compiled* evaluated = settings.evaluation;
    const std::int64_t evaluated_bytes = evaluated == nullptr ? 0 : evaluated->plan(0).arena_bytes;
    const auto arena = std::make_shared<Arena>(device, std::max(plan.arena_bytes, evaluated_bytes));
    Executor executor(single.program(0), plan, 0, settings.seed, device, communicator, arena);
    std::optional<Executor> evaluation;
    if (evaluated != nullptr) {
      evaluation.emplace(evaluated->program(0), evaluated->plan(0), 0, settings.seed, device, communicator, arena);
    }
    std::uint64_t evaluations = 0;
    if (settings.evaluation_alone != nullptr) {
      const double loss = evaluate_alone(*settings.evaluation_alone, device, communicator, settings.seed, inputs);
      if (communicator.rank() == 0) result.evaluations.push_back(loss);
    }
    initialize(executor, settings.seed);
    disturb_parameters(executor, settings.disturbance);
    DefinedRun run(single, executor, optimizer, replicas);
    for (int step = 0; step < settings.steps; ++step) {
      run.step(static_cast<std::uint64_t>(step), settings.learning_rate, inputs, result);
      if (!settings.evaluates_after(step)) continue;
      run.evaluate(*evaluation, evaluations++, settings.evaluates_average, inputs, result);
    }
    run.collect(result);
  });
  return result;
}

}  // namespace strata::host
