#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "verify/random_inputs.hpp"

namespace strata::host {

/// Comparison of the gradient of an op with respect to one operand with finite differences.
struct GradientCheck {
  std::string op;
  /// The plugin that registered the op.
  std::string origin;
  /// Name of the first node with this op, these attributes and these operands.
  std::string node;
  int operand = 0;
  /// Type of the operand, such as "[batch seq embed]f64".
  std::string operand_type;
  /// Largest error of a directional derivative, relative to the derivative.
  double error = 0;
  /// Why the gradient could not be computed. Empty if it was.
  std::string fault;

  [[nodiscard]] bool holds() const { return fault.empty() && error <= kTolerance; }

  /// A wrong factor, sign or index causes an error of about 1. Rounding in f64 and the finite step cause less than
  /// 1e-7.
  static constexpr double kTolerance = 1e-6;
};

/// Gets how much of all is verified. `what`: in the plural, such as "kernel launches". Calls do not overlap.
using VerifiedOps = std::function<void(const std::string& what, std::size_t done, std::size_t all)>;

/// Checks the gradients of all ops of a forward graph in f64, with respect to every operand that needs a gradient.
/// Operands have the values of a forward pass from random inputs and perturbed parameters. Equal nodes are checked
/// once. `reference`: a device that runs reference kernels. `progress` may be empty. \throws what building or running a
/// node throws.
[[nodiscard]] std::vector<GradientCheck> check_gradients(const Graph& forward, const OpRegistry& registry,
                                                         Device& reference, RandomInputs& inputs, std::uint64_t seed,
                                                         const VerifiedOps& progress = {});

}  // namespace strata::host
