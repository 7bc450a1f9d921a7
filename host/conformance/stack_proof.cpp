#include "conformance/stack_proof.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/check/program_check.hpp"
#include "train/training_programs.hpp"
#include "verify/random_inputs.hpp"

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

StackResult train_stack(const RunSetup& setup, const StepPrograms& programs, World& world, int steps) {
  RandomInputs inputs(setup.seed(), setup.inputs, setup.sizes_without_data());
  const int ranks = setup.stack.mesh.rank_count();
  const auto make_device = [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, ranks); };
  return run_stack(programs.training, world, make_device, stack_settings(setup, programs, steps), inputs);
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
  const Tolerance& tolerance = float_type == DType::f64 ? exact_ : tolerance_in_short_types(setup.configuration);
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
  const StackResult stack = train_stack(setup, programs, world, alone.steps);
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
  const auto known = single_ranks_.find(run.key);
  if (known != single_ranks_.end()) return known->second;
  return single_ranks_.emplace(run.key, train_alone(run, plugins_)).first->second;
}

}  // namespace strata::host
