#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::host {

enum class Outcome : std::uint8_t { passed, failed, skipped };

[[nodiscard]] std::string outcome_name(Outcome outcome);

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

}  // namespace strata::host
