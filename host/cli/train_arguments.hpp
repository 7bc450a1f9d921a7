#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/configuration_arguments.hpp"

namespace strata::host {

/// The arguments of a training run, for the commands that train.
struct TrainArguments {
  ConfigurationArguments configuration;
  std::optional<std::int64_t> steps;
  std::string log_json;
  std::string resume;

  void add_to(CLI::App& command);
  [[nodiscard]] RunConfiguration load() const;
  /// As one writes them after `strata train`.
  [[nodiscard]] std::vector<std::string> words() const;
};

}  // namespace strata::host
