/// \file
/// Strata::testing, as a plugin's own test uses it.

#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "strata/error.hpp"
#include "strata/testing/check_op.hpp"
#include "strata/testing/check_plugin.hpp"
#include "strata/testing/verify_run.hpp"

namespace strata::testing {
namespace {

const PluginSettings kSettings{.plugin_folders = {plugin_folder()}};

TEST(TestingLibrary, ChecksAPlugin) {
  PluginSettings settings = kSettings;
  settings.only = {"P05", "S01"};
  const PluginReport sound = check_plugin(sample_plugin_folder() + "/strategy_my_strategy.so", settings);
  EXPECT_TRUE(sound.holds()) << sound.text();
  EXPECT_EQ(sound.checks.size(), 2U);
  const PluginReport bad = check_plugin(sample_plugin_folder() + "/strategy_repeating.so", settings);
  EXPECT_FALSE(bad.holds());
  EXPECT_NE(bad.text().find("failed P05"), std::string::npos) << bad.text();
  EXPECT_THROW(static_cast<void>(check_plugin("/nowhere.so")), ConfigurationError);
}

TEST(TestingLibrary, ChecksAnOp) {
  const OpExample example{.op = "squared", .sizes = {{"seq", 3}, {"embed", 5}}, .operands = {{{"seq", "embed"}}}};
  const OpReport report = check_op(sample_plugin_folder() + "/library_squared.so", example, "cpu", kSettings);
  EXPECT_TRUE(report.holds()) << report.text();
  EXPECT_GE(report.comparisons.size(), 4U) << report.text();
}

TEST(TestingLibrary, VerifiesAConfiguration) {
  const std::string run = R"([run]
steps = 3
[model]
plugin = "gpt2"
layers = 1
heads = 2
embed = 8
context = 8
vocab = 16
[data]
plugin = "tokens"
path = "none"
[batch]
global = 4
micro = 2
[[strategy]]
plugin = "ddp"
size = 2
)";
  const RunReport report = verify_run(run, kSettings);
  EXPECT_TRUE(report.holds()) << report.text();
}

}  // namespace
}  // namespace strata::testing
