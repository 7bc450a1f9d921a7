#include "matrix/proof.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/check/program_check.hpp"
#include "strata/random.hpp"
#include "train/run/training_programs.hpp"
#include "train/verify/defined_run.hpp"
#include "train/verify/random_inputs.hpp"

namespace strata::testing {
namespace {

constexpr int kLeastSteps = 3;

/// Enough steps to execute every instruction of the stack.
int steps_of(const host::Compiled& stack) {
  return std::max(kLeastSteps, static_cast<int>(host::step_variants(stack).steps_to_execute_all()));
}

/// The tolerance for 16-bit types. An adaptive optimizer turns the rounding noise of a small gradient into a full-size
/// step, so single parameters are not compared.
constexpr Tolerance kShortTypes{1e-2, 5e-2, std::numeric_limits<double>::infinity()};
/// The tolerance for 4-bit gradients: two hops, each with an error of at most a fourteenth of the largest number of a
/// block.
constexpr Tolerance kQuantizedGradients{1e-2, 2.0 / 14, std::numeric_limits<double>::infinity()};
/// The tolerance for outer gradients as integers. The momentum of outer steps amplifies their error.
constexpr Tolerance kQuantizedOuterGradients{5e-2, 4.0 / 14, std::numeric_limits<double>::infinity()};

/// `is_defined`: the optimizers' definitions update the parameters.
host::Compiled compile(const host::RunSetup& setup, DType float_type, bool is_defined = false) {
  host::CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = float_type;
  request.optimizer.is_update_outside = is_defined;
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  request.device = device.get();
  return setup.compile(request);
}

/// Trains as the programs say, or for a single rank as the definitions of optimizers and strategies say.
host::StackResult train(const host::RunSetup& setup, const host::Compiled& compiled, World& world, int steps,
                        const host::SimulatedReplicas* defined = nullptr) {
  const host::RunConfiguration& configuration = setup.configuration;
  const auto seed = static_cast<std::uint64_t>(configuration.run.seed);
  host::RandomInputs inputs(seed, setup.inputs, setup.sizes_without_data());
  const int ranks = setup.stack.mesh.rank_count();
  const auto make_device = [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, ranks); };
  const host::StackSettings settings{seed, configuration.optimizer.lr, steps};
  if (defined == nullptr) return host::run_stack(compiled, world, make_device, settings, inputs);
  return host::run_definition(compiled, world, make_device, settings, setup.optimizer, *defined, inputs);
}

/// What distinguishes the replicas of two stacks: who trains on which samples, the options of strategies with loose or
/// reduced axes, and the pieces in which gradients are reduced.
std::string describe(const host::RunSetup& setup, const host::SimulatedReplicas& replicas) {
  std::string text;
  for (const int replica : replicas.part_of_sample) text += std::to_string(replica) + ' ';
  host::RunConfiguration loose = setup.configuration;
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
  return text + std::to_string(pieces) + host::to_toml(loose);
}

bool has_short_parameters(const Graph& graph) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(), [&](const Parameter& parameter) {
    return size_of(graph.type(parameter.value).dtype) < size_of(DType::f32);
  });
}

/// True if some strategy has the option with the value.
bool has_option(const host::RunConfiguration& configuration, const std::string& name, const OptionValue& value) {
  return std::any_of(configuration.strategies.begin(), configuration.strategies.end(), [&](const auto& strategy) {
    const auto option = strategy.options.find(name);
    return option != strategy.options.end() && option->second == value;
  });
}

const Tolerance& tolerance_in_short_types(const host::RunConfiguration& configuration) {
  for (const char* type : {"int8", "int4"}) {
    if (has_option(configuration, "outer_gradients", std::string(type))) return kQuantizedOuterGradients;
  }
  return has_option(configuration, "quantized_gradients", true) ? kQuantizedGradients : kShortTypes;
}

/// A hash over the programs of all classes of ranks.
std::size_t fingerprint(const host::Compiled& compiled) {
  std::string text;
  for (const Program& program : compiled.programs) text += to_string(program);
  return std::hash<std::string>{}(text);
}

}  // namespace

Proof Prover::prove(const std::string& toml, const std::string& name) {
  Proof proof;
  std::optional<host::RunSetup> setup;
  host::Compiled compiled;
  try {
    setup = host::prepare(host::parse_configuration(toml, name), plugins_);
    compiled = compile(*setup, DType::f64);
  } catch (const ConfigurationError& error) {
    proof.findings = {error.what()};
    proof.refusal = find_refusal(name, error.what());
    if (proof.refusal != nullptr) proof.verdict = Verdict::refused;
    return proof;
  } catch (const std::exception& error) {
    proof.findings = {std::string("compiling: ") + error.what()};
    return proof;
  }
  try {
    proof.ranks = compiled.mesh.rank_count();
    proof.programs = fingerprint(compiled);
    const host::StackDifference difference = compare_with_one_rank(*setup, compiled, DType::f64, proof.findings);
    proof.worst_difference = difference.worst();
    compiled = compile(*setup, DType::f32);
    if (has_short_parameters(compiled.graph)) compare_with_one_rank(*setup, compiled, DType::f32, proof.findings);
  } catch (const std::exception& error) {
    proof.findings.push_back(std::string("running: ") + error.what());
  }
  if (proof.findings.empty()) proof.verdict = Verdict::holds;
  return proof;
}

host::StackDifference Prover::compare_with_one_rank(const host::RunSetup& setup, const host::Compiled& compiled,
                                                    DType float_type, std::vector<std::string>& findings) {
  const Tolerance& tolerance = float_type == DType::f64 ? kExact : tolerance_in_short_types(setup.configuration);
  CountingWorld world(setup.make_world(), compiled.mesh);
  if (const auto fault = host::find_communication_fault(host::rank_programs(compiled), world.limits())) {
    findings.push_back("communication: " + *fault);
    return {};
  }
  const SingleRank& single = single_rank(setup, compiled, float_type);
  const host::StackResult stack = train(setup, compiled, world, steps_of(compiled));
  const host::StackDifference difference = host::compare(stack, single.result, single.graph);
  const std::vector<std::string> faults = find_faults({compiled, stack, world.traffic(), difference, tolerance});
  findings.insert(findings.end(), faults.begin(), faults.end());
  return difference;
}

const Prover::SingleRank& Prover::single_rank(const host::RunSetup& stack, const host::Compiled& of_stack,
                                              DType float_type) {
  const host::SimulatedReplicas replicas = host::find_replicas(stack.stack, of_stack, stack.inputs);
  const int steps = steps_of(of_stack);
  host::RunConfiguration alone = stack.configuration;
  alone.strategies.clear();
  for (std::size_t i = 0; i < stack.stack.strategies.size(); ++i) {
    const bool has_axes = !stack.stack.axes[i].empty();
    if (float_type != DType::f64 && !has_axes) alone.strategies.push_back(stack.configuration.strategies[i]);
  }
  // One micro-batch, because accumulation over micro-batches is part of the proof.
  alone.batch.micro = alone.batch.global;
  const std::pair key(float_type, host::to_toml(alone) + describe(stack, replicas) + std::to_string(steps));
  const auto known = single_ranks_.find(key);
  if (known != single_ranks_.end()) return known->second;
  const host::RunSetup setup = host::prepare(std::move(alone), plugins_);
  // Strategies work on values along loose axes of one rank too.
  const bool works = std::any_of(replicas.loose_of.begin(), replicas.loose_of.end(),
                                 [](const std::vector<Axis>& loose) { return !loose.empty(); });
  const bool is_defined = float_type == DType::f64 || works || stack.stack.reducer >= 0;
  host::Compiled compiled = compile(setup, float_type, is_defined);
  const std::unique_ptr<World> world = setup.make_world();
  host::StackResult result = train(setup, compiled, *world, steps, is_defined ? &replicas : nullptr);
  return single_ranks_.emplace(key, SingleRank{std::move(result), std::move(compiled.graph)}).first->second;
}

}  // namespace strata::testing
