#include "conformance/stack_proof.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/check/program_check.hpp"
#include "plugins/model_strategies.hpp"
#include "strata/random.hpp"
#include "train/run/training_programs.hpp"
#include "train/verify/defined_run.hpp"
#include "train/verify/random_inputs.hpp"

namespace strata::host {
namespace {

constexpr int kLeastSteps = 3;

/// The tolerance for 16-bit types. An adaptive optimizer turns the rounding noise of a small gradient into a full-size
/// step, so single parameters are not compared.
constexpr Tolerance kShortTypes{1e-2, 5e-2, std::numeric_limits<double>::infinity()};
/// The tolerance for 4-bit gradients: two hops, each with an error of at most a fourteenth of the largest number of a
/// block.
constexpr Tolerance kQuantizedGradients{1e-2, 2.0 / 14, std::numeric_limits<double>::infinity()};
/// The tolerance for outer gradients as integers. The momentum of outer steps amplifies their error.
constexpr Tolerance kQuantizedOuterGradients{5e-2, 4.0 / 14, std::numeric_limits<double>::infinity()};
/// The tolerance for top-k. Rounding decides which of two elements near the threshold is sent, and an optimizer that
/// gives all directions of a matrix the same length, such as muon, turns that into a step of full size.
constexpr Tolerance kChosenGradients{1e-2, 0.5, std::numeric_limits<double>::infinity()};

/// Trains as the programs say, or for a single rank as the definitions of optimizers and strategies say.
StackResult train_stack(const RunSetup& setup, const StepPrograms& programs, World& world, int steps,
                        const SimulatedReplicas* defined = nullptr) {
  const RunConfiguration& configuration = setup.configuration;
  const auto seed = static_cast<std::uint64_t>(configuration.run.seed);
  RandomInputs inputs(seed, setup.inputs, setup.sizes_without_data());
  const int ranks = setup.stack.mesh.rank_count();
  const auto make_device = [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, ranks); };
  const StackSettings settings{.seed = seed,
                               .learning_rate = configuration.optimizer.lr,
                               .steps = steps,
                               .evaluation = &programs.evaluation,
                               .evaluates_average = configuration.optimizer.average.is_evaluated()};
  if (defined == nullptr) return run_stack(programs.training, world, make_device, settings, inputs);
  return run_definition(programs.training, world, make_device, settings, setup.optimizer, *defined, inputs);
}

/// What distinguishes the replicas of two stacks: who trains on which samples, the options of strategies with loose or
/// reduced axes, and the pieces in which gradients are reduced.
std::string describe_replicas(const RunSetup& setup, const SimulatedReplicas& replicas) {
  std::string text;
  for (const int replica : replicas.part_of_sample) text += std::to_string(replica) + ' ';
  RunConfiguration loose = setup.configuration;
  loose.strategies.clear();
  for (std::size_t i = 0; i < setup.stack.strategies.size(); ++i) {
    const bool reduces = static_cast<int>(i) == replicas.reducer;
    if (!replicas.loose_of[i].empty() || reduces) loose.strategies.push_back(setup.configuration.strategies[i]);
  }
  std::size_t pieces = 0;
  for (const auto& [name, of_parameter] : replicas.pieces) {
    for (const DefinedPiece& piece : of_parameter) {
      for (const std::int64_t element : piece.elements)
        pieces = random::mix(pieces ^ static_cast<std::size_t>(element));
      pieces = random::mix(pieces ^ static_cast<std::size_t>(piece.size));
    }
  }
  return text + std::to_string(pieces) + to_toml(loose);
}

bool has_short_parameters(const Graph& graph) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(), [&](const Parameter& parameter) {
    return size_of(graph.type(parameter.value).dtype) < size_of(DType::f32);
  });
}

/// True if some strategy has the option with the value.
bool has_option(const RunConfiguration& configuration, const std::string& name, const OptionValue& value) {
  return std::any_of(configuration.strategies.begin(), configuration.strategies.end(), [&](const auto& strategy) {
    const auto option = strategy.options.find(name);
    return option != strategy.options.end() && option->second == value;
  });
}

const Tolerance& tolerance_in_short_types(const RunConfiguration& configuration) {
  for (const char* type : {"int8", "int4"}) {
    if (has_option(configuration, "outer_gradients", std::string(type))) return kQuantizedOuterGradients;
  }
  if (has_option(configuration, "method", std::string("topk"))) return kChosenGradients;
  return has_option(configuration, "quantized_gradients", true) ? kQuantizedGradients : kShortTypes;
}

/// The request to compile a training step without data. `device` answers which ops are supported.
CompileRequest step_request(const RunSetup& setup, DType float_type, bool is_defined, const Device& device) {
  CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = float_type;
  request.optimizer.is_update_outside = is_defined;
  request.device = &device;
  return request;
}

/// A hash over the programs of all classes of ranks.
std::size_t fingerprint(const Compiled& compiled) {
  std::string text;
  for (const Program& program : compiled.programs) text += to_string(program);
  return std::hash<std::string>{}(text);
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
  return programs;
}

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
  StepPrograms programs;
  try {
    setup = prepare(configuration, plugins_);
    programs = compile_programs(*setup, DType::f64);
  } catch (const ConfigurationError& error) {
    proof.message = error.what();
    if (!is_hook_failure(proof.message)) proof.verdict = StackVerdict::refused;
    return proof;
  } catch (...) {
    proof.message = "compiling: " + current_exception_text();
    return proof;
  }
  try {
    proof.ranks = programs.training.mesh.rank_count();
    proof.programs = fingerprint(programs.training);
    compare_with_one_rank(*setup, programs, DType::f64, proof);
    programs = compile_programs(*setup, DType::f32);
    if (has_short_parameters(programs.training.graph)) compare_with_one_rank(*setup, programs, DType::f32, proof);
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

void StackProver::compare_with_one_rank(const RunSetup& setup, const StepPrograms& programs, DType float_type,
                                        StackProof& proof) {
  const Compiled& compiled = programs.training;
  const Tolerance& tolerance = float_type == DType::f64 ? kExact : tolerance_in_short_types(setup.configuration);
  CountingWorld world(setup.make_world(), compiled.mesh);
  // Communicators such as nccl match messages by their order. A stack must run on them too.
  for (const CommunicatorLimits& limits : {world.limits(), CommunicatorLimits{.matches_messages_by_id = false}}) {
    for (const Compiled* each : {&programs.training, &programs.evaluation}) {
      const auto fault = find_communication_fault(rank_programs(*each), limits);
      if (!fault) continue;
      proof.faults.communication.push_back("communication of " + each->programs.front().name + ": " + *fault);
      return;
    }
  }
  const SingleRank& single = single_rank(setup, compiled, float_type);
  const StackResult stack = train_stack(setup, programs, world, steps_of(compiled));
  const StackDifference difference = compare(stack, single.result, single.graph);
  if (float_type == DType::f64) proof.worst_difference = difference.worst();
  find_faults({compiled, stack, world.traffic(), difference, tolerance, &programs.evaluation}, proof.faults);
  // Memory of instructions that were not executed was not used.
  const bool is_complete = step_variants(compiled).steps_to_execute_all() <= stack.losses.size();
  if (!is_complete) proof.faults.memory.clear();
}

const StackProver::SingleRank& StackProver::single_rank(const RunSetup& stack, const Compiled& of_stack,
                                                        DType float_type) {
  const SimulatedReplicas replicas = find_replicas(stack.stack, of_stack, stack.inputs);
  const int steps = steps_of(of_stack);
  RunConfiguration alone = stack.configuration;
  alone.device = {alone.device.path, "reference", {}};
  alone.communicator = {alone.communicator.path, "local", {}};
  if (float_type == DType::f64) {
    keep_model_strategies(alone, plugins_);
  } else {
    alone.strategies.clear();
    for (std::size_t i = 0; i < stack.stack.strategies.size(); ++i) {
      if (stack.stack.axes[i].empty()) alone.strategies.push_back(stack.configuration.strategies[i]);
    }
  }
  // One micro-batch, because accumulation over micro-batches is part of the proof.
  alone.batch.micro = alone.batch.global;
  const std::pair key(float_type, to_toml(alone) + describe_replicas(stack, replicas) + std::to_string(steps));
  const auto known = single_ranks_.find(key);
  if (known != single_ranks_.end()) return known->second;
  const RunSetup setup = prepare(std::move(alone), plugins_);
  // Strategies work on values along loose axes of one rank too.
  const bool works = std::any_of(replicas.loose_of.begin(), replicas.loose_of.end(),
                                 [](const std::vector<Axis>& loose) { return !loose.empty(); });
  const bool is_defined = float_type == DType::f64 || works || stack.stack.reducer >= 0;
  StepPrograms programs = compile_programs(setup, float_type, is_defined);
  const std::unique_ptr<World> world = setup.make_world();
  StackResult result = train_stack(setup, programs, *world, steps, is_defined ? &replicas : nullptr);
  return single_ranks_.emplace(key, SingleRank{std::move(result), std::move(programs.training.graph)}).first->second;
}

}  // namespace strata::host
