#pragma once

#include <string>

#include "train/run/run_setup.hpp"
#include "train/verify/stack_run.hpp"

namespace strata::host {

/// How a stack is verified.
struct VerificationOptions {
  int steps = 3;
  /// Keep the configuration's own sizes instead of the smallest that are divisible the same way.
  bool full = false;
  /// The plugin of the stack's devices, with its default options. The one rank is always on the reference device.
  std::string device = "reference";
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

/// Trains in f64 from random tokens (some of them without a target): the configured stack on one thread a rank, and one
/// rank of the same model on the reference device. \throws what compiling or running throws.
[[nodiscard]] Verification verify_stack(const RunConfiguration& configuration, PluginRegistry& registry,
                                        const VerificationOptions& options);

}  // namespace strata::host
