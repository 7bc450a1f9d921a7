#include "verify/definition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "train/loss_scaler.hpp"
#include "train/step_metrics.hpp"

namespace strata::host {

std::vector<double> read_values(Executor& executor, BufferId id) {
  const Buffer& buffer = executor.program().buffer(id);
  std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
  executor.read(id, bytes.data());
  return load_elements(buffer.dtype, bytes);
}

void write_values(Executor& executor, BufferId id, const std::vector<double>& values) {
  executor.write(id, store_elements(executor.program().buffer(id).dtype, values).data());
}

bool is_updated(const StoredParameter& parameter) { return parameter.gradient >= 0; }

namespace {

/// The values or the gradients of all updated parameters of a single rank. Gradients are sums over the tokens.
ParameterValues read_all(Executor& executor, BufferId StoredParameter::*buffer) {
  ParameterValues values;
  for (const StoredParameter& parameter : executor.program().parameters) {
    if (is_updated(parameter)) values[parameter.name] = read_values(executor, parameter.*buffer);
  }
  return values;
}

double norm_of(const ParameterValues& gradients) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients) {
    for (const double each : gradient) squares += each * each;
  }
  return std::sqrt(squares);
}

/// Updates the parameters of a single rank by the definitions of the optimizers (Optimizer::define), in f64. Its
/// program is compiled with OptimizerSettings::is_update_outside.
class DefinedOptimizer {
 public:
  /// `settings` and `groups` outlive the object.
  DefinedOptimizer(const OptimizerSettings& settings, const AssignedGroups& groups)
      : settings_(settings), groups_(groups) {}

  /// `gradients`: scaled and clipped, but for running averages. `values`: in f64 whatever the program's type.
  void update(const Program& program, const ParameterValues& gradients, const StepContext& context,
              ParameterValues& values) {
    for (const StoredParameter& parameter : program.parameters) {
      if (!is_updated(parameter)) continue;
      update(program, parameter, gradients.at(parameter.name), context, values.at(parameter.name));
    }
  }

 private:
  using States = std::map<std::string, std::vector<double>>;

  void update(const Program& program, const StoredParameter& parameter, std::vector<double> gradient,
              const StepContext& context, std::vector<double>& values) {
    if (parameter.role == ParameterRole::running_average) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += change_of(parameter, gradient[i], program);
      return;
    }
    const AssignedUpdate& assigned = groups_.of(parameter.name);
    const OptimizerGroup& group = settings_.groups.at(static_cast<std::size_t>(assigned.group));
    const double largest = settings_.clip_value > 0 ? settings_.clip_value : std::numeric_limits<double>::infinity();
    for (double& each : gradient) each = std::clamp(each, -largest, largest);
    States& states = states_[parameter.name];
    const Buffer& value = program.buffer(parameter.value);
    for (const OptimizerState& state : assigned.states) states[state.name].resize(elements_of(state, value));
    DefinedUpdate defined{.parameter = assigned.parameter,
                          .shape = value.shape,
                          .values = values,
                          .gradient = gradient,
                          .states = states,
                          .learning_rate = context.learning_rate * group.lr_factor,
                          .weight_decay = parameter.decay ? group.weight_decay * context.weight_decay_factor : 0.0,
                          .step = static_cast<std::int64_t>(context.step - context.skipped_steps) + 1,
                          .training_step = static_cast<std::int64_t>(context.step)};
    const std::size_t elements = values.size();
    const States before = states;
    call_plugin(group.origin, "define", [&] { group.optimizer->define(defined); });
    require_size(group, "the values", values.size(), elements);
    for (const auto& [name, state] : states) {
      require_size(group, "state '" + name + "'", state.size(), before.at(name).size());
    }
  }

  static double change_of(const StoredParameter& average, double sum, const Program& program) {
    if (average.sign_step == 0) return sum / program.micro_batches;
    return sum == 0 ? 0 : std::copysign(average.sign_step, sum);
  }

  static void require_size(const OptimizerGroup& group, const std::string& what, std::size_t found,
                           std::size_t expected) {
    if (found == expected) return;
    throw PluginError(group.origin, "", "",
                      "defines an update that leaves " + what + " with " + std::to_string(found) +
                          " elements; accepted: " + std::to_string(expected));
  }

  /// Elements of a state of the parameter with the values `value`.
  static std::size_t elements_of(const OptimizerState& state, const Buffer& value) {
    if (!state.dims) return static_cast<std::size_t>(value.elements());
    Shape shape;
    for (const Dim& dim : *state.dims)
      shape.push_back(value.shape.at(static_cast<std::size_t>(find_dim(value.dims, dim))));
    return static_cast<std::size_t>(element_count(shape));
  }

  const OptimizerSettings& settings_;
  const AssignedGroups& groups_;
  /// By parameter.
  std::map<std::string, States> states_;
};

/// The definitions of what strategies do with replicas at the end of a step (ReplicaHooks::define).
class DefinedExchange {
 public:
  /// `replicas` and `groups` outlive the object. `initial`: the values before the first step.
  DefinedExchange(const SimulatedReplicas& replicas, const AssignedGroups& groups, ParameterValues initial)
      : replicas_(replicas), groups_(groups), initial_(std::move(initial)) {}

  /// Changes the values of all replicas after `step`.
  void run(std::uint64_t step, std::vector<ParameterValues>& values) {
    for (std::size_t i = 0; i < replicas_.strategies.size(); ++i) {
      if (replicas_.unsynchronized_of[i].empty()) continue;
      std::vector<Axis> axes = replicas_.unsynchronized_of[i];
      std::erase_if(axes, [&](const Axis& axis) { return !replicas_.mesh.has(axis); });
      for (int replica = 0; replica < replicas_.count(); ++replica) {
        const std::vector<int> group = replicas_.mesh.group(replica, axes);
        if (group.front() == replica) run(i, step, group, values);
      }
    }
  }

 private:
  void run(std::size_t strategy, std::uint64_t step, const std::vector<int>& group,
           std::vector<ParameterValues>& values) {
    for (const auto& [name, initial] : initial_) {
      std::vector<std::vector<double>> of_group;
      for (const int replica : group) of_group.push_back(values[static_cast<std::size_t>(replica)].at(name));
      DefinedReplicas defined{.parameter = groups_.of(name).parameter,
                              .values = of_group,
                              .initial = initial,
                              .states = states_[{strategy, group.front(), name}],
                              .step = step};
      replicas_.strategies[strategy].ask<ReplicaHooks>("define",
                                                       [&](const ReplicaHooks& hooks) { hooks.define(defined); });
      for (std::size_t i = 0; i < group.size(); ++i) {
        values[static_cast<std::size_t>(group[i])].at(name) = std::move(of_group[i]);
      }
    }
  }

  const SimulatedReplicas& replicas_;
  const AssignedGroups& groups_;
  ParameterValues initial_;
  /// By strategy, first replica of the group, and parameter.
  std::map<std::tuple<std::size_t, int, std::string>, ParameterValues> states_;
};

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
        values_(static_cast<std::size_t>(replicas.count()), read_all(executor, &StoredParameter::value)),
        averages_(optimizer.average_decay > 0 ? values_ : std::vector<ParameterValues>{}),
        exchange_(replicas, single.groups, values_.front()) {
    for (int i = 0; i < replicas.count(); ++i) {
      optimizers_.emplace_back(optimizer, single.groups);
      reductions_.emplace_back(replicas, single.groups, executor.program());
    }
  }

  void step(std::uint64_t step, double learning_rate, InputSource& inputs, StackResult& result) {
    const StepContext context = verified_step(step, learning_rate, scaler_);
    double loss = 0;
    double count = 0;
    double norm = 0;
    std::vector<double> metrics;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      write(values_[i]);
      const ReplicaStep of_replica = compute(i, context, inputs);
      if (of_replica.gradients) {
        optimizers_[i].update(executor_.program(), *of_replica.gradients, context, values_[i]);
      }
      loss += of_replica.loss;
      count += of_replica.count;
      norm += of_replica.norm / static_cast<double>(values_.size());
      add_metric_sums(of_replica.metrics, metrics);
    }
    exchange_.run(step, values_);
    for (std::size_t i = 0; i < averages_.size(); ++i) move_average(values_[i], averages_[i]);
    scaler_.skips(norm);
    result.losses.push_back(loss / count);
    result.gradient_norms.push_back(norm);
    result.metrics.insert(result.metrics.end(), metrics.begin(), metrics.end());
  }

  /// Evaluates the parameters of each replica, or their averages, on that replica's samples. `evaluation` shares its
  /// parameters with the training step.
  void evaluate(Executor& evaluation, std::uint64_t pass, bool reads_averages, InputSource& inputs,
                StackResult& result) {
    double loss = 0;
    double count = 0;
    std::vector<double> metrics;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      write(reads_averages ? averages_[i] : values_[i]);
      for (int worker = 0; worker < replicas_.workers.rank_count(); ++worker) {
        ReplicaInputs of_worker(inputs, replicas_, replicas_.part(static_cast<int>(i), worker));
        const Reports reports = evaluation.run(pass, 0, of_worker);
        loss += reports.at("loss");
        count += reports.at("count");
        add_metric_sums(read_metric_sums(evaluation), metrics);
      }
    }
    result.evaluations.push_back(loss / count);
    result.metrics.insert(result.metrics.end(), metrics.begin(), metrics.end());
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
    for (const auto& [name, each] : values) tensors[name].insert(tensors[name].end(), each.begin(), each.end());
  }

  void move_average(const ParameterValues& values, ParameterValues& averages) const {
    for (auto& [name, average] : averages) {
      const std::vector<double>& value = values.at(name);
      for (std::size_t i = 0; i < value.size(); ++i)
        average[i] = average_decay_ * average[i] + (1 - average_decay_) * value[i];
    }
  }

  /// Loss, count and metrics are sums over the tokens of a replica. The gradients are scaled, and empty if they are not
  /// finite.
  struct ReplicaStep {
    double loss = 0;
    double count = 0;
    double norm = 0;
    std::vector<double> metrics;
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
      add_metric_sums(read_metric_sums(executor_), step.metrics);
      scale = reports.at("gradient_scale");
      sums.push_back(read_all(executor_, &StoredParameter::gradient));
    }
    if (replicas_.reducer < 0) {
      step.gradients = std::move(sums.front());
    } else {
      const double unit = step.count > 0 ? 1 / (step.count * context.loss_scale) : 0;
      step.gradients = reductions_[replica].run(sums, unit);
      step.norm = norm_of(*step.gradients);
      scale = clip_ > 0 ? std::min(1.0, clip_ / (step.norm + 1e-6)) : 1.0;
      if (!std::isfinite(step.norm) || step.count == 0) scale = std::nan("");
    }
    for (const StoredParameter& parameter : executor_.program().parameters) {
      if (!is_updated(parameter) || parameter.role == ParameterRole::running_average) continue;
      for (double& each : step.gradients->at(parameter.name)) each *= scale;
    }
    if (!std::isfinite(scale)) step.gradients.reset();
    return step;
  }

  void write(const ParameterValues& values) {
    for (const auto& parameter : executor_.program().parameters) {
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

ParameterValues DefinedReduction::run(const std::vector<ParameterValues>& gradients, double unit) {
  const NamedStrategy& reducer = replicas_.strategies.at(static_cast<std::size_t>(replicas_.reducer));
  std::map<std::string, States> states = states_;
  ParameterValues mean;
  for (const StoredParameter& parameter : program_.parameters) {
    if (!is_updated(parameter)) continue;
    std::vector<std::vector<double>> shares;
    for (const ParameterValues& of_worker : gradients) {
      shares.push_back(of_worker.at(parameter.name));
      for (double& each : shares.back()) each *= unit;
    }
    const std::size_t elements = shares.front().size();
    std::vector<double>& sum = mean[parameter.name];
    sum.assign(elements, 0.0);
    DefinedGradient defined{.parameter = groups_.of(parameter.name).parameter,
                            .shares = shares,
                            .pieces = replicas_.pieces.at(parameter.name),
                            .states = states[parameter.name],
                            .gradient = sum};
    reducer.ask<GradientHooks>("define_gradient", [&](const GradientHooks& hooks) { hooks.define_gradient(defined); });
    if (sum.size() != elements) {
      throw reducer.error("defines a gradient of " + std::to_string(sum.size()) +
                          " elements; accepted: " + std::to_string(elements));
    }
  }
  if (unit > 0 && std::isfinite(norm_of(mean))) states_ = std::move(states);
  return mean;
}

StackResult run_definition(const Compiled& single, World& world, const MakeDevice& make_device,
                           const StackSettings& settings, const OptimizerSettings& optimizer,
                           const SimulatedReplicas& replicas, InputSource& inputs) {
  require_sums_of_targets(single.graph, replicas);
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
    evaluate_alone(settings, device, communicator, inputs, result);
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
