#include <algorithm>
#include <cmath>

#include "conformance/checks.hpp"
#include "conformance/proved_stacks.hpp"
#include "conformance/stack_proof.hpp"
#include "train/run/training_programs.hpp"
#include "train/verify/verification.hpp"

namespace strata::host {
namespace {

/// The proof of the strategy alone. \throws CheckFailed if the stack does not even compile.
StackProof prove_alone(Subject& subject) {
  StackProof proof = subject.prover(kMostVerifiedSteps).prove(subject.configuration());
  if (proof.verdict == StackVerdict::refused) {
    throw CheckFailed("alone it is refused: " + proof.message + ". Options that fit can be given with --set" +
                      (subject.has_configuration() ? "" : ", and a run that it fits with --config"));
  }
  if (!proof.message.empty()) throw CheckFailed(proof.message);
  return proof;
}

std::string require_none(const std::vector<std::string>& faults) {
  if (!faults.empty()) throw CheckFailed(joined_lines(faults));
  return "";
}

/// Proves the strategy together with each other installed one.
std::string prove_pairs(Subject& subject, bool is_outside) {
  ProvedStacks proved(subject);
  StackProver prover = subject.prover(kMostStepsOfMany);
  const RunConfiguration& alone = subject.configuration();
  for (const PluginSection& other : installed_strategies(subject.plugins(), subject.name())) {
    RunConfiguration pair = alone;
    pair.strategies.insert(is_outside ? pair.strategies.end() : pair.strategies.begin(), other);
    number_strategies(pair);
    proved.add(std::string(is_outside ? "around" : "inside of") + " '" + other.plugin + "'", prover.prove(pair));
  }
  return proved.summary();
}

}  // namespace

std::string check_strategy_alone(Subject& subject) {
  const StackProof proof = prove_alone(subject);
  require_none(proof.faults.training);
  const std::string ranks = std::to_string(proof.ranks) + " ranks";
  return proof.faults.amplified.empty() ? ranks : ranks + "; " + joined_lines(proof.faults.amplified);
}

std::string check_strategy_program(Subject& subject) {
  RunConfiguration evaluated = subject.configuration();
  evaluated.run.eval_every = 1;
  const RunSetup setup = prepare(evaluated, subject.plugins());
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  const TrainingPrograms programs = compile_training(setup, setup.sizes_without_data(), device.get());
  const auto fault = find_fault(programs, setup.limits(*setup.make_world()), setup.memory_bytes(*device));
  if (fault) throw CheckFailed(*fault);
  return "";
}

std::string check_strategy_memory(Subject& subject) { return require_none(prove_alone(subject).faults.memory); }

std::string check_strategy_traffic(Subject& subject) { return require_none(prove_alone(subject).faults.traffic); }

std::string check_strategy_choices(Subject& subject) {
  ProvedStacks proved(subject);
  StackProver prover = subject.prover(kMostStepsOfMany);
  const OptionSchema schema = subject.factory().options();
  for (const OptionVariants& varied : variants_of(schema, subject.options())) {
    if (subject.is_fixed(varied.name)) continue;
    for (const OptionValue& value : varied.values) {
      RunConfiguration stack = subject.configuration();
      subject.section(stack).options[varied.name] = value;
      proved.add(varied.name + " = " + to_string(value), prover.prove(stack));
    }
  }
  return proved.summary();
}

std::string check_strategy_around_others(Subject& subject) { return prove_pairs(subject, true); }

std::string check_strategy_inside_others(Subject& subject) { return prove_pairs(subject, false); }

std::string check_strategy_in_f32(Subject& subject) {
  // Rounding in f32 over a few steps of an adaptive optimizer stays far below this.
  constexpr double kTolerance = 1e-2;
  const auto losses_in = [&](DType type) {
    const RunSetup setup = prepare(subject.configuration(), subject.plugins());
    const int ranks = setup.stack.mesh.rank_count();
    return run_setup_stack(setup, type, 3,
                           [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, ranks); })
        .losses;
  };
  const std::vector<double> exact = losses_in(DType::f64);
  const std::vector<double> found = losses_in(DType::f32);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (std::abs(found.at(i) - exact[i]) <= kTolerance * std::abs(exact[i])) continue;
    throw CheckFailed("step " + std::to_string(i + 1) + ": the loss in f32 is " + std::to_string(found.at(i)) +
                      ", in f64 " + std::to_string(exact[i]));
  }
  return "";
}

}  // namespace strata::host
