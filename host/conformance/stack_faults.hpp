#pragma once

#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "conformance/counting_world.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {

/// Largest relative differences from one rank that rounding may cause.
struct Tolerance {
  double loss = 0;
  double gradient_norm = 0;
  double parameter = 0;
};

/// The tolerance of every value in f64.
inline constexpr double kExact = 1e-9;

/// True if some difference is above the tolerance.
[[nodiscard]] bool exceeds(const StackDifference& difference, const Tolerance& tolerance);

/// A stack after some steps, what was compiled for it, and one rank after the same steps.
struct RunEvidence {
  const Compiled& compiled;
  const StackResult& stack;
  /// Traffic of each rank.
  const std::vector<TrafficByAxes>& traffic;
  StackDifference difference = {};
  Tolerance tolerance = {kExact, kExact, kExact};
  /// The evaluation pass that ran between the steps. Null: none.
  const Compiled* evaluation = nullptr;
  /// The evaluation pass without a training step, which ran once before. Null: none.
  const Compiled* evaluation_alone = nullptr;
  /// How much one rank's result changes if its initial parameters are disturbed by one unit in the last place. A
  /// difference of that size is amplified rounding. Null: every difference above the tolerance is a fault.
  const StackDifference* sensitivity = nullptr;
};

/// The faults of a stack, one per line.
struct StackFaults {
  /// Communication that does not match or deadlocks, which the check before the run finds.
  std::vector<std::string> communication;
  /// The stack trained differently from one rank, or replicas differ.
  std::vector<std::string> training;
  /// Differences above the tolerance that rounding explains. They are no faults.
  std::vector<std::string> amplified;
  /// Memory differs from the plan.
  std::vector<std::string> memory;
  /// Traffic differs from what `strata explain` counts.
  std::vector<std::string> traffic;

  /// The faults of every kind.
  [[nodiscard]] std::vector<std::string> all() const;
};

/// Adds the faults of a run to `faults`.
void find_faults(const RunEvidence& evidence, StackFaults& faults);

}  // namespace strata::host
