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
  bool overwrite = false;
  std::vector<std::string> accept_changed;
  std::string stop_after;
  std::string stop_before_job_end;

  void add_to(CLI::App& command);
  [[nodiscard]] RunConfiguration load() const;
  /// The arguments as a command line for `strata train`.
  [[nodiscard]] std::vector<std::string> words() const;

 private:
  /// The options that stand for keys of the configuration, as arguments of --set.
  [[nodiscard]] std::vector<std::string> overrides() const;
};

}  // namespace strata::host
