#pragma once

#include <cstdint>
#include <string>

#include "strata/error.hpp"

namespace strata::host {

/// The source position of a setting: line and column in a file, or an argument of the command line.
struct Place {
  /// The file's name, or the whole argument ("--set model.layers=2").
  std::string source;
  /// Counted from 1. 0 refers to the whole source.
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  /// The place as text: "quickstart.toml:12:8", "--set model.layers=2".
  [[nodiscard]] std::string text() const;
};

/// An error with the message "PLACE: KEY: MESSAGE", which is the form of all messages about the configuration.
ConfigurationError error_at(const Place& place, const std::string& key, const std::string& message);

}  // namespace strata::host
