#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/isolated_process.hpp"
#include "conformance/subject.hpp"

namespace strata::host {

/// The result of one check of a plugin.
struct CheckResult {
  /// The check's number, such as "S07".
  std::string number;
  std::string promise;
  std::string loss;
  Outcome outcome = Outcome::skipped;
  /// Why the check failed or was skipped; what it covered if it passed. May be empty then.
  std::string message;
  /// The command that runs this check alone.
  std::string command;
};

/// The results of all checks of a plugin.
struct ConformanceReport {
  std::string file;
  /// Kind, name and version of the plugin. Empty if the file has no valid record.
  std::string kind;
  std::string name;
  std::string version;
  std::vector<CheckResult> checks;

  [[nodiscard]] std::size_t count(Outcome outcome) const;
  /// True if no check failed.
  [[nodiscard]] bool holds() const { return count(Outcome::failed) == 0; }
};

/// Receives each result as soon as the check has ended.
using CheckObserver = std::function<void(const CheckResult&)>;

/// Runs all checks of a plugin, each in a process of its own. \throws ConfigurationError if the file does not exist or
/// `settings.only` names a check that is not for this plugin.
[[nodiscard]] ConformanceReport check_conformance(const ConformanceSettings& settings,
                                                  const CheckObserver& observer = {});

}  // namespace strata::host
