#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"

namespace strata::host {

/// A word of a shell script, after its variables were replaced by their values.
struct ShellWord {
  std::string text;
  Place place;
};

/// The commands of a shell script, each as its words. Understood are quotes, comments, continued lines, variables,
/// arrays, `+=`, `${NAME:-otherwise}`, `${NAME[@]}` and products in `$((…))`. Nothing is executed: both branches of an
/// `if` count, the text of a command or variable that has no value stays as it is written.
struct ShellScript {
  std::vector<std::vector<ShellWord>> commands;
  /// Places of conditions.
  std::vector<Place> conditions;
};

/// \throws ConfigurationError with line and column if a quote or an array does not end.
[[nodiscard]] ShellScript read_shell_script(const std::string& text, const std::string& source);

}  // namespace strata::host
