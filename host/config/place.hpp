#pragma once

#include <cstdint>
#include <string>

#include "strata/error.hpp"

namespace strata::host {

/// Where something in the configuration was written: a line and column of a file, or an argument of the command line.
struct Place {
  /// The file's name, or the whole argument ("--set model.layers=2").
  std::string source;
  /// Counted from 1; 0 where the source as a whole is meant.
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  /// "quickstart.toml:12:8", "--set model.layers=2".
  [[nodiscard]] std::string text() const;
};

/// "PLACE: KEY: MESSAGE", the form of every message about the configuration.
ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message);

}  // namespace strata::host
