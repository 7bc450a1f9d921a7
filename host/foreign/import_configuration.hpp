#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"
#include "foreign/foreign_settings.hpp"

namespace strata::host {

/// The programs whose files are read: "deepspeed", "accelerate", …
[[nodiscard]] std::vector<std::string> foreign_formats();

struct ImportRequest {
  /// One of foreign_formats(). Empty: the content says it.
  std::string format;
  /// Number of devices. Empty: the file says it, or the least that its degrees of parallelism need.
  std::optional<std::int64_t> ranks;
};

struct ImportedConfiguration {
  std::string format;
  RunConfiguration configuration;
  /// The settings that the configuration lacks or states in another way, in the order of the file.
  std::vector<ImportRemark> remarks;

  /// The configuration as TOML, without values that are defaults, after the remarks as comments.
  [[nodiscard]] std::string to_toml() const;
};

/// Makes a configuration of another program's file. \throws ConfigurationError with file, line and key.
[[nodiscard]] ImportedConfiguration import_configuration(const std::string& text, const std::string& source,
                                                         const ImportRequest& request);

}  // namespace strata::host
