#pragma once

#include <string>

#include "compiler/compile.hpp"
#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"
#include "verify/defined_replicas.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// A training step, the evaluation pass beside it, and that without one.
struct StepPrograms {
  Compiled training;
  Compiled evaluation;
  Compiled evaluation_alone;
};

/// Compiles the training step. `is_defined`: the optimizers' definitions update the parameters.
[[nodiscard]] Compiled compile_step(const RunSetup& setup, DType float_type, bool is_defined = false);

/// Compiles all of them.
[[nodiscard]] StepPrograms compile_programs(const RunSetup& setup, DType float_type, bool is_defined = false);

/// The settings of a run from random inputs.
[[nodiscard]] StackSettings stack_settings(const RunSetup& setup, const StepPrograms& programs, int steps);

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

/// The run of one rank for the stack of `setup`, of which `compiled` is the training step.
[[nodiscard]] SingleRun single_run(const RunSetup& setup, const Compiled& compiled, DType float_type, int steps,
                                   PluginRegistry& plugins);

/// A model after some steps on one rank.
struct SingleRank {
  StackResult result;
  Graph graph;
};

/// Trains and evaluates on one rank.
[[nodiscard]] SingleRank train_alone(const SingleRun& run, PluginRegistry& plugins,
                                     const Disturbance& disturbance = {});

/// The largest differences from `undisturbed` if the initial parameters are disturbed by one unit in the last place of
/// the shortest type that parameters have, in several ways.
[[nodiscard]] StackDifference sensitivity(const SingleRun& run, const SingleRank& undisturbed, PluginRegistry& plugins);

}  // namespace strata::host
