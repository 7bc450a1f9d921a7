#pragma once

#include <filesystem>
#include <string>

#include "strata/testing/check_plugin.hpp"

/// \file
/// `strata verify` of a configuration in a test.

namespace strata::testing {

/// The differences between a stack and one rank, after a few steps in f64.
struct STRATA_TESTING_API RunReport {
  /// Largest relative differences.
  double loss = 0;
  double gradient_norm = 0;
  double parameter = 0;
  /// The parameter with the largest difference.
  std::string worst_parameter;
  /// Largest difference between ranks that hold the same element.
  double replicas = 0;

  /// True if all differences are at most `tolerance`.
  [[nodiscard]] bool holds(double tolerance = 1e-9) const;
  /// The differences in one line, for a test's message.
  [[nodiscard]] std::string text() const;
};

/// Trains the stack of a configuration, and one rank alone, as `strata verify` does. `toml`: the configuration's text.
/// Plugins in `settings.plugin_folders` are found first. It runs in this process. \throws strata::ConfigurationError
/// for a configuration that cannot run.
[[nodiscard]] STRATA_TESTING_API RunReport verify_run(const std::string& toml, const PluginSettings& settings = {});

}  // namespace strata::testing
