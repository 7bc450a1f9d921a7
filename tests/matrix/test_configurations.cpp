#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "config/run_configuration.hpp"
#include "plugins/plugin_registry.hpp"
#include "sanitized.hpp"
#include "stacks/stack_configuration.hpp"
#include "train/command_runner.hpp"

namespace strata::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shipped_configurations() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(STRATA_SOURCE_DIRECTORY "/configs")) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A configuration that ships with Strata, as a user runs it but for the data.
class ShippedConfiguration : public ::testing::TestWithParam<fs::path> {
 protected:
  void SetUp() override {
    // Long enough for the validation part of the longest context; as tokens it is two letters each.
    std::string text;
    for (int line = 0; line < 20000; ++line) text += "line " + std::to_string(line * line % 97) + " of the text\n";
    data_ = folder_.file("text.txt", text).string();
    configuration_ = host::load_configuration(GetParam());
    BuiltPlugins plugins;
    const auto is_built = [&](PluginKind kind, const std::string& name) {
      return std::any_of(plugins.files().begin(), plugins.files().end(), [&](const host::PluginFile& file) {
        return file.description && file.description->kind == kind && file.description->name == name;
      });
    };
    if (!is_built(PluginKind::device, configuration_.device.plugin)) {
      GTEST_SKIP() << "device " << configuration_.device.plugin << " is not built";
    }
  }

  host::test::CommandResult run(const std::string& command, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {command, GetParam().string(), "--set", "data.path=" + data_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return host::test::run_command(arguments);
  }

  host::test::TemporaryFolder folder_;
  std::string data_;
  host::RunConfiguration configuration_;
};

TEST_P(ShippedConfiguration, PassesTheCheck) {
  const auto result = run("check");
  if (result.messages.find("its device has") != std::string::npos) GTEST_SKIP() << result.messages;
  EXPECT_EQ(result.exit_code, 0) << result.messages;
}

TEST_P(ShippedConfiguration, TrainsAsOneRank) {
  if (kSanitized) GTEST_SKIP() << "takes too long in a sanitized build";
  const auto result = run("verify");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.messages;
}

TEST_P(ShippedConfiguration, Trains) {
  const auto embed = configuration_.model.options.find("embed");
  if (embed == configuration_.model.options.end() || std::get<std::int64_t>(embed->second) > 128) {
    GTEST_SKIP() << "takes too long";
  }
  const auto result = run("train", {"--set", "run.steps=2", "--set", "run.output=" + (folder_.path() / "run").string(),
                                    "--set", "model.context=32"});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
}

INSTANTIATE_TEST_SUITE_P(Configurations, ShippedConfiguration, ::testing::ValuesIn(shipped_configurations()),
                         [](const auto& info) {
                           std::string name = info.param.stem().string();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace strata::testing
