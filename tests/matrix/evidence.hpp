#pragma once

#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "matrix/counting_world.hpp"
#include "train/verify/stack_run.hpp"

namespace strata::testing {

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
  const host::Compiled& compiled;
  const host::StackResult& stack;
  /// Traffic of each rank.
  const std::vector<TrafficByAxes>& traffic;
  host::StackDifference difference;
  Tolerance tolerance = kExact;
};

/// All faults, one per line: the stack trained differently from one rank, replicas differ, or memory or traffic differs
/// from the plan.
[[nodiscard]] std::vector<std::string> find_faults(const RunEvidence& evidence);

}  // namespace strata::testing
