#pragma once

#include <string>

#include "config/document.hpp"

namespace strata::host {

/// Parses YAML, and so JSON, as a tree that records file, line and column of every node. Keys without a value are left
/// out. `source` is the document's name in messages. \throws ConfigurationError with line and column of a mistake.
[[nodiscard]] DocumentNode parse_yaml(const std::string& text, const std::string& source);

/// The value that plain text stands for: a boolean, an integer, a number, else a string.
[[nodiscard]] OptionValue scalar_value(const std::string& text);

}  // namespace strata::host
