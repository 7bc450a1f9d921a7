#include "conformance/stack_proof.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "compiler/check/program_check.hpp"
#include "compiler/graph/batch_statistic.hpp"
#include "loading/resolved_plugins.hpp"
#include "strata/random.hpp"
#include "train/training_programs.hpp"
#include "verify/definition.hpp"
#include "verify/kernel_comparison.hpp"
#include "verify/random_inputs.hpp"

namespace strata::host {

/// A run of one rank that trains as a stack should.
struct SingleRun {
  RunConfiguration configuration;
  DType float_type = DType::f64;
  int steps = 0;
  SimulatedReplicas replicas = {};
  /// The definitions of optimizers and strategies update the parameters, instead of instructions.
  bool is_defined = true;
  /// Equal for runs with equal results.
  std::string key = {};
};

/// A model after some steps on one rank.
struct SingleRank {
  StackResult result;
  Graph graph;
};

namespace {

constexpr int kLeastSteps = 3;
constexpr int kDisturbances = 3;

/// The tolerance for 16-bit types. An adaptive optimizer turns the rounding noise of a small gradient into a full-size
/// step, so single parameters are not compared.
constexpr Tolerance kShortTypes{1e-2, 5e-2, std::numeric_limits<double>::infinity()};
bool has_short_parameters(const Graph& graph) {
  return std::ranges::any_of(graph.parameters, [&](const Parameter& parameter) {
    return size_of(graph.type(parameter.value).dtype) < size_of(DType::f32);
  });
}

/// Replicas that take outer steps drift further apart.
constexpr double kLossOfInexactReplicas = 5e-2;

Tolerance tolerance_in_short_types(const Stack& stack) {
  Tolerance tolerance = kShortTypes;
  for (const NamedStrategy& each : stack.strategies) {
    const double error = each.ask("gradient_error", &Strategy::gradient_error);
    tolerance.gradient_norm = std::max(tolerance.gradient_norm, error);
    if (error > 0 && !stack.unsynchronized.empty()) tolerance.loss = kLossOfInexactReplicas;
  }
  return tolerance;
}

/// What distinguishes the replicas of two stacks: who trains on which samples, the options of strategies with
/// unsynchronized or self-reduced axes, and the pieces in which gradients are reduced.
std::string describe_replicas(const RunSetup& setup, const SimulatedReplicas& replicas) {
  std::string text;
  for (const int replica : replicas.part_of_sample) text += std::to_string(replica) + ' ';
  RunConfiguration replicated = setup.configuration;
  replicated.strategies.clear();
  for (std::size_t i = 0; i < setup.stack.strategies.size(); ++i) {
    const bool reduces = static_cast<int>(i) == replicas.reducer;
    if (!replicas.unsynchronized_of[i].empty() || reduces)
      replicated.strategies.push_back(setup.configuration.strategies[i]);
  }
  std::size_t pieces = 0;
  for (const auto& [name, of_parameter] : replicas.pieces) {
    for (const DefinedPiece& piece : of_parameter) {
      for (const std::int64_t element : piece.elements)
        pieces = random::mix(pieces ^ static_cast<std::size_t>(element));
      pieces = random::mix(pieces ^ static_cast<std::size_t>(piece.size));
    }
  }
  return text + std::to_string(pieces) + to_toml(replicated);
}

/// One unit in the last place of the shortest type that parameters have.
double last_place(const Graph& graph) {
  double unit = 0;
  for (const Parameter& parameter : graph.parameters) {
    unit = std::max(unit, 2 * rounding_of(graph.type(parameter.value).dtype));
  }
  return unit;
}

/// The run of one rank for the stack of `setup`, of which `compiled` is the training step.
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
  // One micro-batch, because accumulation over micro-batches is part of the proof. Statistics are of a micro-batch.
  const bool has_statistics = find_batch_statistic(compiled.graph) != nullptr;
  alone.batch.micro = has_statistics ? alone.batch.micro * setup.stack.replicas : alone.batch.global;
  run.key = std::string(to_string(float_type)) + to_toml(alone) + describe_replicas(setup, run.replicas) +
            std::to_string(steps);
  // Strategies work on values along unsynchronized axes of one rank too.
  const bool works =
      std::ranges::any_of(run.replicas.unsynchronized_of, [](const std::vector<Axis>& axes) { return !axes.empty(); });
  run.is_defined = float_type == DType::f64 || works || setup.stack.reducer >= 0;
  return run;
}

/// Trains and evaluates on one rank.
SingleRank train_alone(const SingleRun& run, PluginRegistry& plugins, const Disturbance& disturbance = {}) {
  const RunSetup setup = prepare(run.configuration, plugins);
  VerifiedPrograms programs(setup, run.float_type, run.is_defined);
  const std::unique_ptr<World> world = setup.make_world();
  RandomInputs inputs = random_inputs(setup);
  StackSettings settings = programs.settings(setup, run.steps);
  settings.disturbance = disturbance;
  StackResult result = run.is_defined ? run_definition(programs.training, *world, devices_of(setup), settings,
                                                       setup.optimizer, run.replicas, inputs)
                                      : run_stack(programs.training, *world, devices_of(setup), settings, inputs);
  return {std::move(result), std::move(programs.training.graph)};
}

/// The largest differences from `undisturbed` if the initial parameters are disturbed by one unit in the last place of
/// the shortest type that parameters have, in several ways.
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

/// A hash over the programs of all classes of ranks.
std::size_t fingerprint(const Compiled& compiled) {
  std::string text;
  for (const Program& program : compiled.programs) text += to_string(program);
  return std::hash<std::string>{}(text);
}

}  // namespace

bool is_hook_failure(const std::string& message) {
  return message.find("hook '") != std::string::npos &&
         (message.find("' threw ") != std::string::npos || message.find("' returned nothing ") != std::string::npos);
}

std::vector<std::string> StackProof::findings() const {
  std::vector<std::string> lines = faults.all();
  if (!message.empty()) lines.insert(lines.begin(), message);
  return lines;
}

StackProof StackProver::prove(const RunConfiguration& configuration) {
  StackProof proof;
  std::optional<RunSetup> setup;
  std::optional<VerifiedPrograms> programs;
  try {
    setup = prepare(configuration, plugins_);
    programs.emplace(*setup, DType::f64);
  } catch (const ConfigurationError& error) {
    proof.message = error.what();
    if (!is_hook_failure(proof.message)) proof.verdict = StackVerdict::refused;
    return proof;
  } catch (...) {
    proof.message = "compiling: " + current_exception_text();
    return proof;
  }
  try {
    proof.ranks = programs->training.mesh.rank_count();
    proof.programs = fingerprint(programs->training);
    compare_with_one_rank(*setup, *programs, DType::f64, proof);
    programs.emplace(*setup, DType::f32);
    if (has_short_parameters(programs->training.graph)) compare_with_one_rank(*setup, *programs, DType::f32, proof);
  } catch (...) {
    proof.message = "running: " + current_exception_text();
  }
  if (proof.findings().empty()) proof.verdict = StackVerdict::holds;
  return proof;
}

int StackProver::steps_of(const Compiled& stack) const {
  const auto enough = static_cast<int>(
      std::min<std::uint64_t>(step_variants(stack).steps_to_execute_all(), static_cast<std::uint64_t>(most_steps_)));
  return std::max(kLeastSteps, enough);
}

void StackProver::compare_with_one_rank(const RunSetup& setup, const VerifiedPrograms& programs, DType float_type,
                                        StackProof& proof) {
  const Compiled& compiled = programs.training;
  const Tolerance tolerance = float_type == DType::f64 ? exact_ : tolerance_in_short_types(setup.stack);
  CountingWorld world(setup.make_world(), compiled.mesh);
  // Communicators such as nccl match messages by their order. A stack must run on them too.
  for (const CommunicatorLimits& limits : {world.limits(), CommunicatorLimits{.matches_messages_by_id = false}}) {
    for (const Compiled* each : {&programs.training, &programs.evaluation, &programs.evaluation_alone}) {
      const auto fault = find_communication_fault(rank_programs(*each), limits);
      if (!fault) continue;
      proof.faults.communication.push_back("communication of " + each->programs.front().name + ": " + *fault);
      return;
    }
  }
  const SingleRun alone = single_run(setup, compiled, float_type, steps_of(compiled), plugins_);
  const SingleRank& single = single_rank(alone);
  const StackResult stack = programs.run(setup, world, devices_of(setup), alone.steps);
  const StackDifference difference = compare(stack, single.result, single.graph);
  if (float_type == DType::f64) proof.worst_difference = difference.worst();
  RunEvidence evidence{
      compiled, stack, world.traffic(), difference, tolerance, &programs.evaluation, &programs.evaluation_alone};
  StackDifference rounding;
  if (exceeds(difference, tolerance)) {
    rounding = sensitivity(alone, single, plugins_);
    evidence.sensitivity = &rounding;
  }
  find_faults(evidence, proof.faults);
  // Memory of instructions that were not executed was not used.
  const bool is_complete = step_variants(compiled).steps_to_execute_all() <= stack.losses.size();
  if (!is_complete) proof.faults.memory.clear();
}

const SingleRank& StackProver::single_rank(const SingleRun& run) {
  std::shared_ptr<const SingleRank>& known = single_ranks_[run.key];
  if (known == nullptr) known = std::make_shared<const SingleRank>(train_alone(run, plugins_));
  return *known;
}

}  // namespace strata::host
