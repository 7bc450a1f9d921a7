#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "setup/run_setup.hpp"
#include "verify/generation_verification.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// Options of `strata verify`.
struct VerificationOptions {
  /// The least number of steps. More are run, up to kMostVerifiedSteps, to execute every variant of the step and a step
  /// after it.
  int steps = 3;
  /// Keeps the configuration's own sizes. If false, uses the smallest sizes with the same divisibility.
  bool full = false;
  /// The plugin of the stack's devices, with default options. The meaning of an empty name depends on the function. The
  /// single rank always uses the reference device.
  std::string device = {};
  /// The plugin of the stack's communicator. If the configuration names it, it has that one's options. Empty: local.
  std::string communicator = {};
};

inline constexpr int kMostVerifiedSteps = 256;

/// The result of verify_stack().
struct Verification {
  StackResult stack;
  StackResult single;
  StackDifference difference;
  GenerationVerification generation;
  /// The configuration after shrinking.
  RunConfiguration configuration;
  Mesh mesh;
  /// Variants of the step that were not executed, in words.
  std::vector<std::string> missed;
};

/// The configuration with the smallest sizes that have the same divisibility, so that the same rules apply.
[[nodiscard]] RunConfiguration shrink(const RunConfiguration& configuration, PluginRegistry& registry);

/// Compiles the stack of `setup` for values of type `float_type`, and trains some steps from random inputs.
StackResult run_setup_stack(const RunSetup& setup, DType float_type, int steps, const MakeDevice& make_device);

/// Runs every program that a run can execute. Trains and evaluates twice in f64 from random inputs, some without a
/// target: the configured stack with one thread per rank, and a single rank of the same model on the reference device,
/// which trains as the definitions of optimizers and strategies say (run_definition()). An evaluation without training
/// is compared too, and generation (verify_generation()). The stack uses reference devices too unless `options` names
/// another. \throws what compiling or running throws.
[[nodiscard]] Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                                        const VerificationOptions& options);

}  // namespace strata::host
