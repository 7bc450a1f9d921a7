#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "build_paths.hpp"
#include "train/command_runner.hpp"

namespace strata::host {

/// Runs commands on a small model beside the sample plugins.
class CommandsBesideSamples : public ::testing::Test {
 protected:
  CommandsBesideSamples() { ::setenv("STRATA_PLUGIN_PATH", sample_plugin_folder().c_str(), 1); }
  ~CommandsBesideSamples() override { ::unsetenv("STRATA_PLUGIN_PATH"); }

  /// Runs a command on the configuration with these overrides.
  [[nodiscard]] test::CommandResult run(const std::string& command, const std::vector<std::string>& overrides,
                                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{command, config_};
    for (const std::string& each : overrides) arguments.insert(arguments.end(), {"--set", each});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_command(arguments);
  }

  test::TemporaryFolder folder_;
  std::string data_ = folder_.file("text.txt", std::string(400, 'x')).string();
  std::string config_ =
      folder_
          .file("sample.toml", "[run]\nsteps = 1\noutput = \"" + (folder_.path() / "output").string() +
                                   "\"\n[model]\nplugin = \"sample_model\"\n[data]\npath = \"" + data_ +
                                   "\"\n[batch]\nglobal = 4\nmicro = 4\n"
                                   "[device]\nplugin = \"reference\"\n")
          .string();
};

/// A fault of a plugin, and the message that names it.
struct Fault {
  const char* name;
  std::vector<std::string> overrides;
  std::string message;
  int exit_code = 2;
};

inline void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

/// `strata check` of faults.
class CheckOfFaults : public CommandsBesideSamples, public ::testing::WithParamInterface<Fault> {};

}  // namespace strata::host
