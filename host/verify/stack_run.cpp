#include "verify/stack_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "strata/random.hpp"
#include "train/loss_scaler.hpp"
#include "train/step_metrics.hpp"

namespace strata::host {
namespace {

/// Collects the ranks' parts of parameters into whole tensors, and records differences between replicas.
class ParameterCollector {
 public:
  explicit ParameterCollector(StackResult& result) : result_(result) {}

  /// Adds the parts that a rank of another process holds.
  void add(const StackResult& other) {
    add(other.parameters, result_.parameters);
    add(other.averages, result_.averages);
  }

  void add(Executor& executor) {
    for (const StoredParameter& parameter : executor.program().parameters) {
      add(executor, parameter, parameter.value, result_.parameters);
      const auto average = parameter.states.find(kAverageState);
      if (average != parameter.states.end()) add(executor, parameter, average->second, result_.averages);
    }
  }

 private:
  /// Adds this rank's part of a parameter or of its average.
  void add(Executor& executor, const StoredParameter& parameter, BufferId buffer, WholeTensors& tensors) {
    const Program& program = executor.program();
    const Shard shard = shard_of(program, parameter, buffer, executor.rank());
    if (shard.local_elements() == 0) return;
    const DType dtype = program.buffer(buffer).dtype;
    std::vector<std::byte> local(static_cast<std::size_t>(shard.local_elements()) * size_of(dtype));
    executor.read(shard.slice(buffer), local.data());
    const std::lock_guard lock(mutex_);
    std::vector<double>& whole = tensors[parameter.name];
    const std::int64_t elements = element_count(shard.part().tensor_shape());
    whole.resize(static_cast<std::size_t>(elements), std::numeric_limits<double>::quiet_NaN());
    for_each_run(shard.part(), [&](std::int64_t from, std::int64_t to, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        put(whole[static_cast<std::size_t>(to + i)], load_element(dtype, local.data(), from + i));
      }
    });
  }

  void add(const WholeTensors& parts, WholeTensors& tensors) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, values] : parts) {
      std::vector<double>& whole = tensors[name];
      whole.resize(values.size(), std::numeric_limits<double>::quiet_NaN());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!std::isnan(values[i])) put(whole[i], values[i]);
      }
    }
  }

  void put(double& element, double value) {
    if (!std::isnan(element))
      result_.replica_difference = std::max(result_.replica_difference, std::abs(element - value));
    element = value;
  }

  StackResult& result_;
  std::mutex mutex_;
};

double worst_step(const std::vector<double>& found, const std::vector<double>& expected) {
  double worst = found.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    worst = std::max(worst, relative_difference(found[i], expected[i]));
  }
  return worst;
}

/// Joins the results of this process's ranks with those of the other processes, which then all have the whole result.
/// Every rank makes the call. `own`: of this rank, without parameters; losses and norms of rank 0 only.
void join_processes(Communicator& communicator, Device& device, Executor& executor, StackResult own,
                    const std::vector<int>& local_ranks, ParameterCollector& collector, StackResult& result) {
  ParameterCollector(own).add(executor);
  const std::vector<StackResult> all = gather_results(communicator, device, own);
  if (communicator.rank() != local_ranks.front()) return;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (contains(local_ranks, static_cast<int>(rank))) continue;
    collector.add(all[rank]);
    result.planned_peak_bytes[rank] = all[rank].planned_peak_bytes.at(0);
    result.arena_peak_bytes[rank] = all[rank].arena_peak_bytes.at(0);
    if (rank != 0) continue;
    result.losses = all[rank].losses;
    result.gradient_norms = all[rank].gradient_norms;
    result.evaluations = all[rank].evaluations;
  }
}

/// Memory of a rank for its training step and its evaluation pass, which share it.
struct PlannedBytes {
  std::int64_t arena = 0;
  OffloadBytes offload;
};

PlannedBytes planned_bytes(const Compiled& training, const Compiled* evaluation, int rank) {
  const MemoryPlan& plan = training.plan(rank);
  if (evaluation == nullptr) return {plan.arena_bytes, plan.offload};
  const MemoryPlan& evaluated = evaluation->plan(rank);
  return {std::max(plan.arena_bytes, evaluated.arena_bytes), largest(plan.offload, evaluated.offload)};
}

void disturb(Executor& executor, const StoredParameter& parameter, BufferId buffer, const Disturbance& disturbance) {
  const Program& program = executor.program();
  const Shard shard = shard_of(program, parameter, buffer, executor.rank());
  if (shard.local_elements() == 0) return;
  const DType dtype = program.buffer(buffer).dtype;
  const std::uint64_t key = random::stream_key(disturbance.seed, "disturbance/" + parameter.name, 0);
  std::vector<std::byte> values(static_cast<std::size_t>(shard.local_elements()) * size_of(dtype));
  executor.read(shard.slice(buffer), values.data());
  for_each_run(shard.part(), [&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const bool grows = random::below(key, static_cast<std::uint64_t>(global + i), 2) == 1;
      const double value = load_element(dtype, values.data(), local + i);
      store_element(dtype, values.data(), local + i, value * (grows ? 1 + disturbance.unit : 1 - disturbance.unit));
    }
  });
  executor.write(shard.slice(buffer), values.data());
}

void note_metrics(Executor& executor, StackResult& result) {
  const std::vector<double> metrics = read_metric_sums(executor);
  result.metrics.insert(result.metrics.end(), metrics.begin(), metrics.end());
}

void note_evaluation(Executor& executor, const Reports& reports, StackResult& result) {
  result.evaluations.push_back(reports.at("loss") / reports.at("count"));
  note_metrics(executor, result);
}

}  // namespace

std::filesystem::path offload_directory(const Program& program) {
  return program.offload_directory.empty() ? std::filesystem::temp_directory_path()
                                           : std::filesystem::path(program.offload_directory);
}

double relative_difference(double found, double expected) {
  const double difference = std::abs(found - expected);
  // NaN compares as no difference, so return infinity for it.
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : difference / std::max(std::abs(expected), std::numeric_limits<double>::min());
}
double relative_difference(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) || std::isnan(expected[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  return difference == 0 ? 0 : difference / std::max(largest, std::numeric_limits<double>::min());
}

void disturb_parameters(Executor& executor, const Disturbance& disturbance) {
  if (disturbance.unit == 0) return;
  for (const StoredParameter& parameter : executor.program().parameters) {
    if (parameter.role == ParameterRole::constant) continue;
    disturb(executor, parameter, parameter.value, disturbance);
    for (const auto& [name, state] : parameter.states) {
      if (begins_as_value(parameter, name)) disturb(executor, parameter, state, disturbance);
    }
  }
}

void evaluate_alone(const StackSettings& settings, Device& device, Communicator& communicator, InputSource& inputs,
                    StackResult& result) {
  if (settings.evaluation_alone == nullptr) return;
  const Compiled& evaluation = *settings.evaluation_alone;
  const int rank = communicator.rank();
  const Program& program = evaluation.program(rank);
  const MemoryPlan& plan = evaluation.plan(rank);
  Executor executor(program, plan, rank, settings.seed, device, communicator,
                    std::make_shared<Arena>(device, plan.arena_bytes),
                    make_offload_memory(plan.offload, offload_directory(program)), !evaluation.has_transfers());
  initialize(executor, settings.seed);
  const Reports reports = executor.run(0, 0, inputs);
  if (rank == 0) note_evaluation(executor, reports, result);
}

StepContext verified_step(std::uint64_t step, double learning_rate, const LossScaler& scaler) {
  return {.step = step,
          .learning_rate = learning_rate,
          .weight_decay_factor = 1.0 / static_cast<double>(step + 1),
          .loss_scale = scaler.factor(),
          .skipped_steps = scaler.state().skipped_steps};
}

double StackDifference::worst() const { return std::max({loss, gradient_norm, evaluation, metrics, parameter}); }

StackResult run_stack(const Compiled& compiled, World& world, const MakeDevice& make_device,
                      const StackSettings& settings, InputSource& inputs) {
  const auto ranks = static_cast<std::size_t>(compiled.mesh.rank_count());
  const std::vector<int> local_ranks = world.local_ranks();
  StackResult result;
  result.first_rank = local_ranks.front();
  result.planned_peak_bytes.resize(ranks);
  result.arena_peak_bytes.resize(ranks);
  result.planned_offload.resize(ranks);
  result.offload_peak.resize(ranks);
  ParameterCollector parameters(result);
  run_rank_threads(world, make_device, [&](Device& device, Communicator& communicator) {
    const int rank = communicator.rank();
    const PlannedBytes planned = planned_bytes(compiled, settings.evaluation, rank);
    const auto arena = std::make_shared<Arena>(device, planned.arena);
    const auto offload = make_offload_memory(planned.offload, offload_directory(compiled.program(rank)));
    const auto make_executor = [&](const Compiled& each) {
      return std::make_unique<Executor>(each.program(rank), each.plan(rank), rank, settings.seed, device, communicator,
                                        arena, offload, !each.has_transfers());
    };
    const std::unique_ptr<Executor> training = make_executor(compiled);
    const std::unique_ptr<Executor> evaluation = settings.evaluation ? make_executor(*settings.evaluation) : nullptr;
    Executor& executor = *training;
    std::uint64_t evaluations = 0;
    evaluate_alone(settings, device, communicator, inputs, result);
    initialize(executor, settings.seed);
    disturb_parameters(executor, settings.disturbance);
    LossScaler scaler(compiled);
    for (int step = 0; step < settings.steps; ++step) {
      const Reports reports =
          executor.run(verified_step(static_cast<std::uint64_t>(step), settings.learning_rate, scaler), inputs);
      scaler.skips(reports.at("grad_norm"));
      if (rank == 0) {
        result.losses.push_back(reports.at("loss") / reports.at("count"));
        result.gradient_norms.push_back(reports.at("grad_norm"));
        note_metrics(executor, result);
      }
      if (!settings.evaluates_after(step)) continue;
      const Reports evaluated = evaluation->run(evaluations++, 0, inputs);
      if (rank == 0) note_evaluation(*evaluation, evaluated, result);
    }
    result.planned_peak_bytes[static_cast<std::size_t>(rank)] = planned.arena;
    result.arena_peak_bytes[static_cast<std::size_t>(rank)] = arena->peak_bytes();
    result.planned_offload[static_cast<std::size_t>(rank)] = planned.offload;
    if (offload) result.offload_peak[static_cast<std::size_t>(rank)] = offload->peak();
    parameters.add(executor);
    if (local_ranks.size() == ranks) return;
    StackResult own;
    if (rank == 0) {
      own.losses = result.losses;
      own.gradient_norms = result.gradient_norms;
      own.evaluations = result.evaluations;
      own.metrics = result.metrics;
    }
    own.planned_peak_bytes = {planned.arena};
    own.arena_peak_bytes = {arena->peak_bytes()};
    join_processes(communicator, device, executor, std::move(own), local_ranks, parameters, result);
  });
  return result;
}

StackDifference compare(const StackResult& stack, const StackResult& single, const Graph& graph) {
  StackDifference difference;
  difference.loss = worst_step(stack.losses, single.losses);
  difference.gradient_norm = worst_step(stack.gradient_norms, single.gradient_norms);
  difference.evaluation = worst_step(stack.evaluations, single.evaluations);
  difference.metrics = relative_difference(stack.metrics, single.metrics);
  const auto compare_tensor = [&](const WholeTensors& found, const std::vector<double>& expected,
                                  const std::string& parameter, const std::string& description) {
    const auto tensor = found.find(parameter);
    const double each =
        tensor == found.end() ? std::numeric_limits<double>::infinity() : relative_difference(tensor->second, expected);
    if (each < difference.parameter) return;
    difference.parameter = each;
    difference.worst_parameter = description;
  };
  for (const Parameter& parameter : graph.parameters) {
    const std::string& name = parameter.name;
    if (parameter.gradient_is_zero) {
      difference.excluded.push_back(name);
      continue;
    }
    const auto average = single.averages.find(name);
    if (average != single.averages.end()) compare_tensor(stack.averages, average->second, name, name + " (average)");
    compare_tensor(stack.parameters, single.parameters.at(name), name, name);
  }
  return difference;
}

}  // namespace strata::host
