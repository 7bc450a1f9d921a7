#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "strata/testing/check_plugin.hpp"
#include "strata/testing/op_example.hpp"

/// \file
/// Checks of one op of a plugin at shapes that its author chooses.
///
///   strata::testing::OpExample example{.op = "squared", .sizes = {{"seq", 3}, {"embed", 5}}, .operands = {{{"seq",
///   "embed"}}}}; const auto report = strata::testing::check_op("build/library_squared.so", example);
///   ASSERT_TRUE(report.holds()) << report.text();

namespace strata::testing {

/// A comparison of one gradient with finite differences, or of one kernel with the reference kernel.
struct OpComparison {
  /// "gradient" or "kernel".
  std::string kind;
  /// The operand, or the element types.
  std::string what;
  /// The plugin that registered the op or the kernel.
  std::string origin;
  /// Gradients: the relative difference; up to 1e-6 is accepted. Kernels: the difference as a part of what rounding
  /// explains; up to 1 is accepted.
  double error = 0;
  /// Why nothing could be compared. Empty if it was.
  std::string fault;
  bool holds = false;
};

/// The comparisons of an op at one example.
struct STRATA_TESTING_API OpReport {
  std::vector<OpComparison> comparisons;

  /// True if something was compared, and all comparisons hold.
  [[nodiscard]] bool holds() const;
  /// One line for each comparison, for a test's message.
  [[nodiscard]] std::string text() const;
};

/// Compares the gradient of an op with finite differences in f64, and its kernels with the reference kernel in every
/// real type. `file`: a plugin that registers the op or kernels for it, with its default options. `device`: the plugin
/// whose kernels are compared, and which may be `file` itself. It runs in this process. \throws strata::Error if the
/// plugin cannot be loaded, or the op does not accept the example.
[[nodiscard]] STRATA_TESTING_API OpReport check_op(const std::filesystem::path& file, const OpExample& example,
                                                   const std::string& device = "cpu",
                                                   const PluginSettings& settings = {});

}  // namespace strata::testing
