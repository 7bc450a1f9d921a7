#pragma once

#include <vector>

#include "ops/op_case.hpp"

/// \file
/// Comparison of devices with the reference device, for the rows of the table.

namespace strata::testing {

const OpRegistry& core_registry();

/// The rows for which devices have kernels.
std::vector<OpCase> device_cases();
/// The rows whose ops every accelerator has kernels for.
std::vector<OpCase> accelerator_cases();

/// Expects the same infinities and no NaN, and ‖found - expected‖ <= tolerance · ‖expected‖.
void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance);

/// Difference that a result may have beyond the row's tolerance because its type is short.
double rounding(const OpInstance& instance, std::size_t result, int inner_roundings = 0);

/// The results of the reference device in f64, from values that are exact in the types of `instance`.
struct Expected {
  Expected(const OpCase& op_case, const OpInstance& instance, Device& reference);

  CaseValues values;
  std::vector<std::vector<double>> results;
};

}  // namespace strata::testing
