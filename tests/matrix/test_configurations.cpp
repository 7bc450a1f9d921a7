#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "build_paths.hpp"
#include "config/run_configuration.hpp"
#include "datasets/image_files.hpp"
#include "loading/plugin_registry.hpp"
#include "stacks/stack_configuration.hpp"
#include "train/command_runner.hpp"

namespace strata::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shipped_configurations() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(source_path("configs"))) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A text that is long enough for a validation split with the longest context. A token is two letters.
std::string some_text() {
  std::string text;
  for (int line = 0; line < 20000; ++line) text += "line " + std::to_string(line * line % 97) + " of the text\n";
  return text;
}

/// The letters as 16-bit tokens.
std::string some_tokens() {
  std::string tokens;
  for (const char letter : some_text()) tokens += {letter, '\0'};
  return tokens;
}

/// True if the plugin is built and its hardware is present.
bool is_here(const host::PluginSection& device) {
  BuiltPlugins plugins;
  try {
    const auto& factory = plugins.load<DeviceFactory>(device.plugin);
    const KernelRegistry kernels;
    return factory.create(Options(factory.options(), device.options), {.kernels = &kernels}) != nullptr;
  } catch (const ConfigurationError&) {
    return false;
  }
}

/// A configuration that ships with Strata, run as users run it except for the data.
class ShippedConfiguration : public ::testing::TestWithParam<fs::path> {
 protected:
  void SetUp() override {
    configuration_ = host::load_configuration(GetParam());
    const std::string& dataset = configuration_.data.dataset.plugin;
    if (dataset == "images") {
      const std::string path = folder_.file("data", cifar10_file(0, 200)).string();
      data_ = {"--set", "data.paths=[\"" + path + "\"]", "--set", "data.validation_paths=[\"" + path + "\"]"};
    } else {
      data_ = {"--set",
               "data.path=" + folder_.file("data", dataset == "tokens" ? some_tokens() : some_text()).string()};
    }
    device_is_here_ = is_here(configuration_.device);
  }

  host::test::CommandResult run(const std::string& command, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {command, GetParam().string()};
    arguments.insert(arguments.end(), data_.begin(), data_.end());
    arguments.insert(arguments.end(), options.begin(), options.end());
    return host::test::run_command(arguments);
  }

  host::test::TemporaryFolder folder_;
  std::vector<std::string> data_;
  host::RunConfiguration configuration_;
  bool device_is_here_ = false;
};

TEST_P(ShippedConfiguration, PassesTheCheck) {
  std::vector<std::string> options;
  if (!device_is_here_) {
    ASSERT_EQ(configuration_.device.plugin, "cuda");
    if (!is_here({"device", "cuda_emulated", {}})) GTEST_SKIP() << "no device";
    // The emulated device has the same kernels.
    options = {"--set", "device.plugin=cuda_emulated"};
  }
  // A transformer of a published size may need more memory than this machine has.
  if (configuration_.model.options.contains("size") && configuration_.model.plugin != "resnet") {
    options.insert(options.end(), {"--set", "batch.micro=1", "--set", "model.layers=2"});
  }
  const auto result = run("check", options);
  EXPECT_EQ(result.exit_code, 0) << result.messages;
}

TEST_P(ShippedConfiguration, TrainsAsOneRank) {
  const auto result = run("verify");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.messages;
}

TEST_P(ShippedConfiguration, Trains) {
  if (!device_is_here_) GTEST_SKIP() << "no device";
  const auto embed = configuration_.model.options.find("embed");
  if (embed == configuration_.model.options.end() || std::get<std::int64_t>(embed->second) > 128) {
    GTEST_SKIP() << "takes too long";
  }
  std::vector<std::string> options = {"--set", "run.steps=2", "--set",
                                      "run.output=" + (folder_.path() / "run").string()};
  if (configuration_.model.options.contains("context")) options.insert(options.end(), {"--set", "model.context=32"});
  const auto result = run("train", options);
  EXPECT_EQ(result.exit_code, 0) << result.messages;
}

TEST(ShippedConfigurations, SayInOneLineThatTheirDeviceIsMissing) {
  host::test::TemporaryFolder folder;
  for (const fs::path& file : shipped_configurations()) {
    const std::string device = host::load_configuration(file).device.plugin;
    if (is_here({"device", device, {}})) continue;
    const auto result = host::test::run_command({"train", file.string(), "--set",
                                                 "data.path=" + folder.file("text.txt", some_text()).string(), "--set",
                                                 "run.output=" + (folder.path() / "run").string()});
    EXPECT_EQ(result.exit_code, 2) << file;
    EXPECT_EQ(std::count(result.messages.begin(), result.messages.end(), '\n'), 1) << result.messages;
    EXPECT_NE(result.messages.find(device), std::string::npos) << result.messages;
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations, ShippedConfiguration, ::testing::ValuesIn(shipped_configurations()),
                         [](const auto& info) {
                           std::string name = info.param.stem().string();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace strata::testing
