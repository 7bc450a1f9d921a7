#pragma once

#include <cstdint>
#include <string>

#include "train/run/run_setup.hpp"
#include "train/verify/stack_run.hpp"

namespace strata::host {

/// Options of `strata verify`.
struct VerificationOptions {
  int steps = 3;
  /// Keeps the configuration's own sizes. If false, uses the smallest sizes with the same divisibility.
  bool full = false;
  /// The plugin of the stack's devices, with default options. The meaning of an empty name depends on the function. The
  /// single rank always uses the reference device.
  std::string device = {};
};

/// The result of verify_stack().
struct Verification {
  StackResult stack;
  StackResult single;
  StackDifference difference;
  /// The configuration after shrinking.
  RunConfiguration configuration;
  Mesh mesh;
};

/// The configuration with the smallest sizes that have the same divisibility, so that the same rules apply.
[[nodiscard]] RunConfiguration shrink(const RunConfiguration& configuration, PluginRegistry& registry);

/// What updates the parameters in a verification.
enum class UpdateBy : std::uint8_t {
  program,    ///< the instructions that the optimizers emit
  definition  ///< the optimizers' definitions (Optimizer::define), for a single rank
};

/// Compiles the stack of `setup` for values of type `float_type`, and trains some steps from random inputs.
StackResult run_setup_stack(const RunSetup& setup, DType float_type, int steps, const MakeDevice& make_device,
                            UpdateBy update = UpdateBy::program, Graph* graph = nullptr);

/// Trains twice in f64 from random inputs, some without a target: the configured stack with one thread per rank, and a
/// single rank of the same model on the reference device, whose parameters the optimizers' definitions update. The
/// stack uses reference devices too unless `options` names another. \throws what compiling or running throws.
[[nodiscard]] Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                                        const VerificationOptions& options);

}  // namespace strata::host
