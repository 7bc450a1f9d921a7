#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"

namespace strata::host {

/// Arguments of every command that reads a configuration: CONFIG and any number of --set KEY=VALUE.
struct ConfigurationArguments {
  std::string file;
  std::vector<std::string> overrides;

  [[nodiscard]] RunConfiguration load() const { return load_configuration(file, overrides); }
};

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

  [[nodiscard]] RunConfiguration load() const;
  /// The arguments as a command line for `strata train`.
  [[nodiscard]] std::vector<std::string> words() const;

 private:
  /// The options that stand for keys of the configuration, as arguments of --set.
  [[nodiscard]] std::vector<std::string> overrides() const;
};

}  // namespace strata::host
