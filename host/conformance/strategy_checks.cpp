#include <cmath>

#include "conformance/check.hpp"
#include "conformance/stack_proof.hpp"
#include "conformance/subject.hpp"
#include "train/training_programs.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

/// The lists of faults of a proof that a check is about.
using FaultKind = std::vector<std::string> StackFaults::*;

/// Proves the strategy alone. \return what was proved. \throws CheckFailed for faults of the kind, or if the stack does
/// not compile. A model other than the first may be refused.
std::string prove_alone(Subject& subject, FaultKind kind) {
  std::vector<std::string> proved;
  StackProver prover = subject.prover(kMostVerifiedSteps);
  for (const CheckedRun& run : subject.runs()) {
    const StackProof proof = prover.prove(run.configuration);
    const bool is_refused = proof.verdict == StackVerdict::refused;
    if (is_refused && run.where.empty()) {
      throw CheckFailed("alone it is refused: " + proof.message + ". Options that fit can be given with --set" +
                        (subject.has_configuration() ? "" : ", and a run that it fits with --config"));
    }
    if (!is_refused && !proof.message.empty()) throw CheckFailed(run.where + proof.message);
    if (!(proof.faults.*kind).empty()) throw CheckFailed(run.where + joined_lines(proof.faults.*kind));
    proved.push_back(run.where + (is_refused ? "refused: " + proof.message : std::to_string(proof.ranks) + " ranks"));
    for (const std::string& each : proof.faults.amplified) proved.push_back(run.where + each);
  }
  return join(proved, "; ");
}

/// Proves the strategy together with each other installed one.
std::string prove_pairs(Subject& subject, bool is_outside) {
  ProvedStacks proved(subject);
  StackProver prover = subject.prover(kMostStepsOfMany);
  for (const CheckedRun& run : subject.runs()) {
    for (const PluginSection& other : installed_strategies(subject.plugins(), subject.name())) {
      RunConfiguration pair = run.configuration;
      pair.strategies.insert(is_outside ? pair.strategies.end() : pair.strategies.begin(), other);
      number_strategies(pair);
      const std::string what = is_outside ? "around '" : "inside of '";
      proved.add(run.where + what + other.plugin + "'", prover.prove(pair));
    }
  }
  return proved.summary();
}

std::string check_strategy_alone(Subject& subject) { return prove_alone(subject, &StackFaults::training); }

std::string check_strategy_program(Subject& subject) {
  for (CheckedRun& run : subject.runs()) {
    run.configuration.run.eval_every = 1;
    try {
      const RunSetup setup = prepare(run.configuration, subject.plugins());
      const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
      const TrainingPrograms programs = compile_training(setup, setup.sizes_without_data(), device.get());
      const auto fault = find_fault(programs, setup.limits(*setup.make_world()), setup.memory_bytes(*device));
      if (fault) throw CheckFailed(run.where + *fault);
    } catch (const ConfigurationError&) {
      // A model other than the first may be refused, which another check reports.
      if (run.where.empty()) throw;
    }
  }
  return "";
}

std::string check_strategy_memory(Subject& subject) { return prove_alone(subject, &StackFaults::memory); }

std::string check_strategy_traffic(Subject& subject) { return prove_alone(subject, &StackFaults::traffic); }

std::string check_strategy_choices(Subject& subject) {
  ProvedStacks proved(subject);
  StackProver prover = subject.prover(kMostStepsOfMany);
  const OptionSchema schema = subject.factory().options();
  for (const OptionVariants& varied : variants_of(schema, subject.options())) {
    if (subject.is_fixed(varied.name)) continue;
    for (const OptionValue& value : varied.values) {
      for (CheckedRun& run : subject.runs()) {
        subject.section(run.configuration).options[varied.name] = value;
        proved.add(run.where + varied.name + " = " + to_string(value), prover.prove(run.configuration));
      }
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
    return run_setup_stack(setup, type, 3, devices_of(setup)).losses;
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

}  // namespace

std::vector<Check> strategy_checks() {
  return {
      {"S01", "Alone, it trains in f64 as one rank does, and replicas are bitwise equal.",
       "The strategy changes what a model learns.", check_strategy_alone},
      {"S02", "Communication of training and evaluation matches on all ranks and cannot deadlock.",
       "A run hangs, or mixes up messages.", check_strategy_program},
      {"S03", "Ranks use exactly the memory that was planned.", "A run that `strata check` accepts runs out of memory.",
       check_strategy_memory},
      {"S04", "Ranks send exactly the bytes that `strata explain` counts.", "A user chooses a stack by wrong numbers.",
       check_strategy_traffic},
      {"S05", "Each value of each option that has few values trains as one rank does, or is refused.",
       "An option changes what a model learns.", check_strategy_choices},
      {"S06", "Around each other installed strategy it trains as one rank does, or is refused.",
       "The strategy cannot be combined, or combinations learn something else.", check_strategy_around_others},
      {"S07", "Inside of each other installed strategy it trains as one rank does, or is refused.",
       "The strategy cannot be combined, or combinations learn something else.", check_strategy_inside_others},
      {"S08", "In f32 it trains as in f64, up to rounding.", "Real runs differ from verified ones.",
       check_strategy_in_f32},
  };
}

}  // namespace strata::host
