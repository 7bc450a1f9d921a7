#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "runtime/executor.hpp"
#include "strata/communicator.hpp"
#include "train/run_setup.hpp"

namespace strata::host {

/// What a few steps of a stack leave behind.
struct StackResult {
  std::vector<double> losses;          ///< mean over tokens, one a step
  std::vector<double> gradient_norms;  ///< one a step
  /// Every parameter, whole, after the last step.
  std::map<std::string, std::vector<double>> parameters;
  /// Largest difference between ranks that hold the same element; bitwise equal replicas give 0.
  double replica_difference = 0;
  std::vector<std::int64_t> planned_peak_bytes;
  std::vector<std::int64_t> arena_peak_bytes;
};

/// Largest relative differences between a stack and one rank.
struct StackDifference {
  double loss = 0;
  double gradient_norm = 0;
  double parameter = 0;
  /// The parameter that differs most.
  std::string worst_parameter;
  /// Left out because their true gradient is zero: an adaptive optimizer turns rounding noise into steps.
  std::vector<std::string> excluded;

  [[nodiscard]] double worst() const;
};

/// How a stack is verified.
struct VerificationOptions {
  int steps = 3;
  /// Keep the configuration's own sizes instead of the smallest that are divisible the same way.
  bool full = false;
};

/// A verified stack.
struct Verification {
  StackResult stack;
  StackResult single;
  StackDifference difference;
  /// What was run, after shrinking.
  RunConfiguration configuration;
  Mesh mesh;
};

/// Trains in f64 on the reference device from random tokens (some of them without a target): the configured stack on
/// one thread a rank, and one rank of the same model. \throws what compiling or running throws.
[[nodiscard]] Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                                        const VerificationOptions& options);

/// Runs the compiled programs for some steps, every rank on a thread.
[[nodiscard]] StackResult run_stack(const RunSetup& setup, const Compiled& compiled, int steps, InputSource& inputs);

[[nodiscard]] StackDifference compare(const StackResult& stack, const StackResult& single, const Graph& graph);

}  // namespace strata::host
