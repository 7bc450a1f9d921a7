#include "conformance/single_rank.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "loading/model_strategies.hpp"
#include "setup/training_programs.hpp"
#include "strata/random.hpp"
#include "verify/defined_run.hpp"
#include "verify/evaluation_alone.hpp"
#include "verify/random_inputs.hpp"
#include "verify/rounding.hpp"

namespace strata::host {
namespace {

constexpr int kDisturbances = 3;

/// The request to compile a training step without data. `device` answers which ops are supported.
CompileRequest step_request(const RunSetup& setup, DType float_type, bool is_defined, const Device& device) {
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = float_type;
  request.optimizer.is_update_outside = is_defined;
  request.device = &device;
  return request;
}

/// What distinguishes the replicas of two stacks: who trains on which samples, the options of strategies with
/// unsynchronized or self-reduced axes, and the pieces in which gradients are reduced.
std::string describe_replicas(const RunSetup& setup, const SimulatedReplicas& replicas) {
  std::string text;
  for (const int replica : replicas.part_of_sample) text += std::to_string(replica) + ' ';
  RunConfiguration unsynchronized = setup.configuration;
  unsynchronized.strategies.clear();
  for (std::size_t i = 0; i < setup.stack.strategies.size(); ++i) {
    const bool reduces = static_cast<int>(i) == replicas.reducer;
    if (!replicas.unsynchronized_of[i].empty() || reduces)
      unsynchronized.strategies.push_back(setup.configuration.strategies[i]);
  }
  std::size_t pieces = 0;
  for (const auto& [name, of_parameter] : replicas.pieces) {
    for (const DefinedPiece& piece : of_parameter) {
      for (const std::int64_t element : piece.elements)
        pieces = random::mix(pieces ^ static_cast<std::size_t>(element));
      pieces = random::mix(pieces ^ static_cast<std::size_t>(piece.size));
    }
  }
  return text + std::to_string(pieces) + to_toml(unsynchronized);
}

/// One unit in the last place of the shortest type that parameters have.
double last_place(const Graph& graph) {
  double unit = 0;
  for (const Parameter& parameter : graph.parameters) {
    unit = std::max(unit, 2 * rounding_of(graph.type(parameter.value).dtype));
  }
  return unit;
}

}  // namespace

Compiled compile_step(const RunSetup& setup, DType float_type, bool is_defined) {
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  return setup.compile(step_request(setup, float_type, is_defined, *device));
}

StepPrograms compile_programs(const RunSetup& setup, DType float_type, bool is_defined) {
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  const CompileRequest request = step_request(setup, float_type, is_defined, *device);
  StepPrograms programs;
  programs.training = setup.compile(request);
  programs.evaluation = compile_evaluation(setup, request, programs.training);
  programs.evaluation_alone = compile_evaluation_alone(setup, request);
  return programs;
}

StackSettings stack_settings(const RunSetup& setup, const StepPrograms& programs, int steps) {
  return {.seed = setup.seed(),
          .learning_rate = setup.configuration.optimizer.lr,
          .steps = steps,
          .evaluation = &programs.evaluation,
          .evaluation_alone = &programs.evaluation_alone,
          .evaluates_average = setup.configuration.optimizer.average.is_evaluated()};
}

SingleRun single_run(const RunSetup& setup, const Compiled& compiled, DType float_type, int steps,
                     PluginRegistry& plugins) {
  SingleRun run{.configuration = setup.configuration,
                .float_type = float_type,
                .steps = steps,
                .replicas = find_replicas(setup.stack, compiled, setup.inputs)};
  RunConfiguration& alone = run.configuration;
  alone.device = {alone.device.path, "reference", {}};
  alone.communicator = {alone.communicator.path, "local", {}};
  if (float_type == DType::f64) {
    keep_model_strategies(alone, plugins);
  } else {
    alone.strategies.clear();
    for (std::size_t i = 0; i < setup.stack.strategies.size(); ++i) {
      if (setup.stack.axes[i].empty()) alone.strategies.push_back(setup.configuration.strategies[i]);
    }
  }
  // One micro-batch, because accumulation over micro-batches is part of the proof.
  alone.batch.micro = alone.batch.global;
  run.key = std::string(to_string(float_type)) + to_toml(alone) + describe_replicas(setup, run.replicas) +
            std::to_string(steps);
  // Strategies work on values along unsynchronized axes of one rank too.
  const bool works = std::any_of(run.replicas.unsynchronized_of.begin(), run.replicas.unsynchronized_of.end(),
                                 [](const std::vector<Axis>& unsynchronized) { return !unsynchronized.empty(); });
  run.is_defined = float_type == DType::f64 || works || setup.stack.reducer >= 0;
  return run;
}

SingleRank train_alone(const SingleRun& run, PluginRegistry& plugins, const Disturbance& disturbance) {
  const RunSetup setup = prepare(run.configuration, plugins);
  StepPrograms programs = compile_programs(setup, run.float_type, run.is_defined);
  const std::unique_ptr<World> world = setup.make_world();
  RandomInputs inputs(setup.seed(), setup.inputs, setup.sizes_without_data());
  const auto make_device = [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, 1); };
  StackSettings settings = stack_settings(setup, programs, run.steps);
  settings.disturbance = disturbance;
  StackResult result = run.is_defined ? run_definition(programs.training, *world, make_device, settings,
                                                       setup.optimizer, run.replicas, inputs)
                                      : run_stack(programs.training, *world, make_device, settings, inputs);
  return {std::move(result), std::move(programs.training.graph)};
}

StackDifference sensitivity(const SingleRun& run, const SingleRank& undisturbed, PluginRegistry& plugins) {
  const double unit = last_place(undisturbed.graph);
  StackDifference largest;
  for (std::uint64_t seed = 0; seed < kDisturbances; ++seed) {
    const SingleRank disturbed = train_alone(run, plugins, {.unit = unit, .seed = seed});
    const StackDifference each = compare(disturbed.result, undisturbed.result, undisturbed.graph);
    largest.loss = std::max(largest.loss, each.loss);
    largest.gradient_norm = std::max(largest.gradient_norm, each.gradient_norm);
    largest.evaluation = std::max(largest.evaluation, each.evaluation);
    largest.parameter = std::max(largest.parameter, each.parameter);
  }
  return largest;
}

}  // namespace strata::host
