#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/configuration_arguments.hpp"

namespace strata::host {

/// Arguments of the commands that train.
struct TrainArguments {
  ConfigurationArguments configuration;
  std::optional<std::int64_t> steps;
  std::string log_json;
  std::string resume;

  void add_to(CLI::App& command);
  [[nodiscard]] RunConfiguration load() const;
  /// The arguments as a command line for `strata train`.
  [[nodiscard]] std::vector<std::string> words() const;
};

}  // namespace strata::host
