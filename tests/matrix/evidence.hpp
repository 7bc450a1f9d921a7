#pragma once

#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "matrix/counting_world.hpp"
#include "train/verify/stack_run.hpp"

namespace strata::testing {

/// Largest relative differences from one rank that rounding may make.
struct Tolerance {
  double loss = 0;
  double gradient_norm = 0;
  double parameter = 0;
};

/// In f64.
inline constexpr Tolerance kExact{1e-9, 1e-9, 1e-9};

/// A stack after some steps, what was compiled for it, and one rank after the same steps.
struct RunEvidence {
  const host::Compiled& compiled;
  const host::StackResult& stack;
  /// By rank.
  const std::vector<TrafficByAxes>& traffic;
  host::StackDifference difference;
  Tolerance tolerance = kExact;
};

/// Everything that is not as it should be, one line each: the stack trained otherwise than one rank, replicas differ,
/// memory or traffic is not what was planned.
[[nodiscard]] std::vector<std::string> find_faults(const RunEvidence& evidence);

}  // namespace strata::testing
