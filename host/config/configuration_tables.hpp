#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/run_configuration.hpp"

namespace strata::host {

/// A table of a configuration's TOML text.
struct ConfigurationTable {
  /// Declared path, such as "optimizer.schedule" or "strategy".
  std::string path;
  /// True if the table is one of several, [[path]].
  bool repeated = false;
  /// The host's keys, then the options of the section's plugin.
  std::vector<std::pair<std::string, OptionValue>> values;
};

/// Everything that the configuration says, in the order of its TOML text.
[[nodiscard]] std::vector<ConfigurationTable> configuration_tables(const RunConfiguration& configuration);

}  // namespace strata::host
