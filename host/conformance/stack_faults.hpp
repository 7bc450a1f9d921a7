#pragma once

#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "conformance/counting_world.hpp"
#include "train/verify/stack_run.hpp"

namespace strata::host {

/// Largest relative differences from one rank that rounding may cause.
struct Tolerance {
  double loss = 0;
  double gradient_norm = 0;
  double parameter = 0;
};

/// The tolerance in f64.
inline constexpr Tolerance kExact{1e-9, 1e-9, 1e-9};

/// A stack after some steps, what was compiled for it, and one rank after the same steps.
struct RunEvidence {
  const Compiled& compiled;
  const StackResult& stack;
  /// Traffic of each rank.
  const std::vector<TrafficByAxes>& traffic;
  StackDifference difference;
  Tolerance tolerance = kExact;
  /// The evaluation pass that ran between the steps. Null: none.
  const Compiled* evaluation = nullptr;
};

/// The faults of a stack, one per line.
struct StackFaults {
  /// Communication that does not match or deadlocks, which the check before the run finds.
  std::vector<std::string> communication;
  /// The stack trained differently from one rank, or replicas differ.
  std::vector<std::string> training;
  /// Memory differs from the plan.
  std::vector<std::string> memory;
  /// Traffic differs from what `strata explain` counts.
  std::vector<std::string> traffic;

  [[nodiscard]] std::vector<std::string> all() const;
};

/// Adds the faults of a run to `faults`.
void find_faults(const RunEvidence& evidence, StackFaults& faults);

}  // namespace strata::host
