#pragma once

#include <string>

#include "config/document.hpp"

namespace strata::host {

/// The arguments of a training program of Megatron-LM as a tree: "--num-layers 24" is a key with a value, "--bf16" one
/// with true. Underscores in names become hyphens. `text` is a file of arguments, or a shell script, whose last command
/// with such arguments counts. \throws ConfigurationError with line and column.
[[nodiscard]] DocumentNode parse_arguments(const std::string& text, const std::string& source);

}  // namespace strata::host
