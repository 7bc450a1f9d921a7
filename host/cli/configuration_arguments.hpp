#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"

namespace strata::host {

/// Arguments of every command that reads a configuration: CONFIG and any number of --set KEY=VALUE.
struct ConfigurationArguments {
  std::string file;
  std::vector<std::string> overrides;

  void add_to(CLI::App& command);
  [[nodiscard]] RunConfiguration load() const { return load_configuration(file, overrides); }
};

}  // namespace strata::host
