#pragma once

#include "train/run_setup.hpp"
#include "train/stack_run.hpp"

namespace strata::host {

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

}  // namespace strata::host
