#pragma once

#include <string>
#include <vector>

#include "setup/run_setup.hpp"
#include "verify/kernel_comparison.hpp"
#include "verify/op_gradients.hpp"
#include "verify/random_inputs.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// Options of `strata verify`.
struct VerificationOptions {
  /// The least number of steps. More are run, up to kMostVerifiedSteps, to execute every variant of the step and a step
  /// after it.
  int steps = 3;
  /// Keeps the configuration's own sizes. If false, uses the smallest sizes with the same divisibility.
  bool full = false;
  /// verify_stack() compiles the full step first, which refuses what training would refuse.
  bool compiles_full = false;
  /// verify_stack() compares generation too.
  bool generates = false;
  /// The plugin of the stack's devices, with default options. The meaning of an empty name depends on the function. The
  /// single rank always uses the reference device.
  std::string device = {};
  /// The plugin of the stack's communicator. If the configuration names it, it has that one's options. Empty: local.
  std::string communicator = {};
  /// Gets the progress of verify_ops().
  VerifiedOps progress = {};
};

inline constexpr int kMostVerifiedSteps = 256;

/// The result of verify_generation().
struct GenerationVerification {
  /// Largest relative difference of the scores of a next token.
  double difference = 0;
  /// Why nothing was compared. Empty if the scores were.
  std::string missing = {};
};

/// The result of verify_stack().
struct Verification {
  StackResult stack;
  StackResult single;
  StackDifference difference;
  GenerationVerification generation;  ///< if VerificationOptions::generates
  /// The configuration after shrinking.
  RunConfiguration configuration;
  Mesh mesh;
  /// Variants of the step that were not executed, in words.
  std::vector<std::string> missed;
};

/// The configuration with the smallest sizes that have the same divisibility, so that the same rules apply.
[[nodiscard]] RunConfiguration shrink(const RunConfiguration& configuration, PluginRegistry& registry);

/// Makes the devices of all ranks of a run. `setup` outlives them.
[[nodiscard]] MakeDevice devices_of(const RunSetup& setup);

/// Random inputs for a run without data.
[[nodiscard]] RandomInputs random_inputs(const RunSetup& setup);

/// Compiles the training step for random inputs.
[[nodiscard]] Compiled compile_step(const RunSetup& setup, DType float_type);

/// The programs of a run from random inputs: a training step, the evaluation pass beside it, and that without one.
struct VerifiedPrograms {
  /// `is_defined`: the optimizers' definitions update the parameters (run_definition()), instead of instructions.
  explicit VerifiedPrograms(const RunSetup& setup, DType float_type, bool is_defined = false);
  /// `setup` is that of the constructor. The settings refer to the programs.
  [[nodiscard]] StackSettings settings(const RunSetup& setup, int steps) const;
  /// Trains and evaluates.
  [[nodiscard]] StackResult run(const RunSetup& setup, World& world, const MakeDevice& make_device, int steps) const;

  Compiled training;
  Compiled evaluation;
  Compiled evaluation_alone;
};

/// Compiles the stack of `setup` for values of type `float_type`, and trains some steps from random inputs.
StackResult run_setup_stack(const RunSetup& setup, DType float_type, int steps, const MakeDevice& make_device);

/// Runs every program that a run can execute. Trains and evaluates twice in f64 from random inputs, some without a
/// target: the configured stack with one thread per rank, and a single rank of the same model on the reference device,
/// which trains as the definitions of optimizers and strategies say (run_definition()). An evaluation without training
/// is compared too, and generation if asked for. The stack uses reference devices too unless `options` names
/// another. \throws what compiling or running throws.
[[nodiscard]] Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                                        const VerificationOptions& options);

/// Compiles the programs of generation on one rank, for prompts, next tokens and whole contexts, in the type of
/// `setup`. Compares the scores of next tokens, from the keys and values of earlier ones, with those of whole contexts.
[[nodiscard]] GenerationVerification verify_generation(const RunSetup& setup);

/// Checks of all ops of a configuration.
struct OpVerification {
  std::vector<GradientCheck> gradients;
  std::vector<KernelCheck> kernels;
  /// Description of the device whose kernels were compared.
  std::string device;

  [[nodiscard]] bool holds() const;
};

/// Checks the gradient of every op in the configuration's graph against finite differences in f64. Then trains two
/// steps of the stack in the configured types and compares every kernel launch with the reference kernel. The model is
/// shrunk unless `options.full` is set. If `options.device` is empty, the configured device is used. \throws what
/// compiling or running throws.
[[nodiscard]] OpVerification verify_ops(const RunConfiguration& configuration, PluginRegistry& registry,
                                        const VerificationOptions& options);

}  // namespace strata::host
