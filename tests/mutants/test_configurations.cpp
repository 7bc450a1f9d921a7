#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "config/run_configuration.hpp"
#include "loading/resolved_plugins.hpp"
#include "odd_files.hpp"
#include "refusal.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using strata::testing::is_refused;
using strata::testing::Mutator;

std::vector<std::string> valid_configurations() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(source_path("configs"))) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const fs::path& file : files) {
    if (file.extension() == ".toml") texts.push_back(test::read_file(file));
  }
  return texts;
}

/// Uses a configuration as commands do until they compile it.
void use_configuration(const std::string& text, PluginRegistry& registry) {
  RunConfiguration configuration = parse_configuration(text, "c.toml");
  check_schedule_lengths(configuration);
  const std::string copy = to_toml(configuration);
  EXPECT_EQ(to_toml(parse_configuration(copy, "copy.toml")), copy);
  (void)resolve_plugins(configuration, registry);
}

TEST(ConfigurationMutants, AreAcceptedOrRefusedByLine) {
  constexpr int kMutants = 3000;
  const std::vector<std::string> texts = valid_configurations();
  PluginRegistry registry({plugin_folder()});
  Mutator mutator(1);
  int accepted = 0;
  for (int i = 0; i < kMutants; ++i) {
    const std::string& text = texts[static_cast<std::size_t>(i) % texts.size()];
    const std::string mutant = i % 3 == 0 ? mutator.bytes(text) : mutator.lines(text);
    accepted += is_refused("c.toml", [&] { use_configuration(mutant, registry); }) ? 0 : 1;
    if (::testing::Test::HasFailure()) FAIL() << "mutant " << i << ":\n" << mutant.substr(0, 4000);
  }
  EXPECT_GT(accepted, kMutants / 20);
  EXPECT_LT(accepted, kMutants / 2);
}

TEST(ConfigurationMutants, SettingsOfTheCommandLineAreAcceptedOrRefused) {
  constexpr int kMutants = 1000;
  const std::string text = valid_configurations().front();
  const std::vector<std::string> keys{"run.steps", "model.layers",       "strategy.0.size", "strategy.9.plugin",
                                      "data.path", "optimizer.schedule", "optimizer.lr",    "run",
                                      "",          "strategy",           "library.0"};
  Mutator mutator(2);
  for (int i = 0; i < kMutants; ++i) {
    const std::string setting = mutator.choice().of(keys) + "=" + mutator.value();
    const std::string mutant = i % 2 == 0 ? setting : mutator.bytes(setting);
    if (mutant.empty()) continue;
    (void)is_refused("", [&] { (void)parse_configuration(text, "c.toml", {mutant}); });
    if (::testing::Test::HasFailure()) FAIL() << "mutant " << i << ": " << mutant.substr(0, 400);
  }
}

TEST(ConfigurationMutants, OddFilesAreNamed) {
  const test::TemporaryFolder folder;
  for (const std::string& name : strata::testing::odd_files(folder)) {
    EXPECT_TRUE(is_refused(name.substr(0, 40), [&] { (void)load_configuration(name); })) << name.substr(0, 40);
  }
}

}  // namespace
}  // namespace strata::host
