#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "chaos/plan.hpp"

namespace strata::testing::chaos {

/// What the program was asked for, and where it finds Strata.
struct Settings {
  std::uint64_t seed = 1;
  std::string strata;
  std::string plugins;
  std::string slow_disk_library;
  /// Seconds until a command that has not ended is a failure.
  int deadline = 120;
  bool keeps = false;
};

/// Writes the configuration of a run and its data to `folder`. \return the configuration's path.
std::filesystem::path write_configuration(const std::filesystem::path& folder, const Stack& stack);

/// Files of a run.
struct RunPaths {
  std::filesystem::path configuration;
  std::filesystem::path output;
  std::filesystem::path log;
};

/// The command of a run. `start`: arguments such as --resume.
[[nodiscard]] std::vector<std::string> command_of(const Settings& settings, const Plan& plan, const RunPaths& paths,
                                                  const std::vector<std::string>& start);

/// Variables of the command's environment, as NAME=VALUE. `temporary`: a folder for the launcher's own files.
[[nodiscard]] std::vector<std::string> environment_of(const Settings& settings, const std::filesystem::path& temporary);

}  // namespace strata::testing::chaos
