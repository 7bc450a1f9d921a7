#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// Marks what libstrata_testing exports.
#define STRATA_TESTING_API __attribute__((visibility("default")))

/// \file
/// The checks of `strata plugins check`, for a plugin's own tests. They work with any test framework:
///
///   const strata::testing::PluginReport report = strata::testing::check_plugin("build/strategy_mine.so");
///   ASSERT_TRUE(report.holds()) << report.text();

namespace strata::testing {

/// How a check ended.
enum class Outcome : std::uint8_t { passed, failed, skipped };

/// The result of one check of a plugin.
struct CheckResult {
  /// The check's number, such as "S07".
  std::string number;
  /// What is promised.
  std::string promise;
  Outcome outcome = Outcome::skipped;
  /// Why the check failed or was skipped; what it covered if it passed. May be empty then.
  std::string message;
  /// The command that runs this check alone.
  std::string command;
};

/// The results of all checks of a plugin.
struct STRATA_TESTING_API PluginReport {
  std::vector<CheckResult> checks;

  /// True if no check failed.
  [[nodiscard]] bool holds() const;
  /// The checks that failed or were skipped, one line each, for a test's message.
  [[nodiscard]] std::string text() const;
};

/// How a plugin is checked.
struct PluginSettings {
  /// Numbers of the checks to run. Empty: all that apply.
  std::vector<std::string> only = {};
  /// As the arguments of `--set`: "strategy.size=4", "data.path=input.txt".
  std::vector<std::string> overrides = {};
  /// The TOML file of the run in which the plugin is checked. Empty: a small GPT-2, and for stacks also a model that is
  /// no GPT.
  std::string configuration = {};
  /// Seed of random values.
  std::int64_t seed = 1;
  /// Largest relative difference of a stack from one rank in f64 that passes.
  double tolerance = 1e-9;
  /// Folders with further plugins that the run uses, searched before those of the installed Strata.
  std::vector<std::filesystem::path> plugin_folders = {};
};

/// Runs all checks of the plugin `file`. Each runs in a process of its own, which is forked from this one: call it
/// before the test starts threads. \throws strata::ConfigurationError if the file does not exist, or if `settings.only`
/// names a check that is not for this plugin.
[[nodiscard]] STRATA_TESTING_API PluginReport check_plugin(const std::filesystem::path& file,
                                                           const PluginSettings& settings = {});

}  // namespace strata::testing
