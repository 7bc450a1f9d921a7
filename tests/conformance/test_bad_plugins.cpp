/// \file
/// Plugins with one fault each: the kit names the check that fails, and no command crashes beside them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "build_paths.hpp"
#include "sanitized.hpp"
#include "train/command_runner.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using test::CommandResult;
using test::run_command;
using ::testing::HasSubstr;

/// A faulty plugin, and the check that finds its fault.
struct BadPlugin {
  const char* name;
  std::string file;
  std::vector<std::string> overrides;
  std::string check;
  std::string message;
};

void PrintTo(const BadPlugin& plugin, std::ostream* out) { *out << plugin.name; }

CommandResult check(const std::string& file, std::vector<std::string> more) {
  more.insert(more.begin(), {"plugins", "check", sample_plugin_folder() + "/" + file, "--json"});
  return run_command(more);
}

/// The checks with this outcome, in order.
std::vector<std::string> numbers(const json& report, const std::string& outcome) {
  std::vector<std::string> found;
  for (const json& each : report.at("checks")) {
    if (each.at("outcome") == outcome) found.push_back(each.at("check"));
  }
  return found;
}

class BadPlugins : public ::testing::TestWithParam<BadPlugin> {};

TEST_P(BadPlugins, AreFoundByTheirCheck) {
  const BadPlugin& plugin = GetParam();
  std::vector<std::string> arguments = {"--only", plugin.check};
  for (const std::string& each : plugin.overrides) arguments.insert(arguments.end(), {"--set", each});
  const CommandResult result = check(plugin.file, arguments);
  ASSERT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, 1) << result.out << result.messages;
  const json report = json::parse(result.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << result.out << result.messages;
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_THAT(numbers(report, "failed"), ::testing::ElementsAre(plugin.check)) << result.out;
  const json& failed = report.at("checks").back();
  EXPECT_THAT(failed.at("message").get<std::string>(), HasSubstr(plugin.message));
  EXPECT_THAT(failed.at("command").get<std::string>(), HasSubstr(" --only " + plugin.check));
}

BadPlugin of_strategy(const char* name, const std::string& fault, const std::string& check,
                      const std::string& message) {
  return {name, "strategy_faulty.so", {"strategy.fault=" + fault}, check, message};
}
BadPlugin of_optimizer(const char* name, const std::string& fault, const std::string& check,
                       const std::string& message) {
  return {name, "optimizer_faulty_optimizer.so", {"optimizer.fault=" + fault}, check, message};
}
BadPlugin of_dataset(const char* name, const std::string& fault, const std::string& check, const std::string& message) {
  return {name, "dataset_faulty_dataset.so", {"dataset.fault=" + fault}, check, message};
}
BadPlugin of_ops(const char* name, const std::string& option, const std::string& check, const std::string& message) {
  return {name, "library_faulty_ops.so", {"library." + option}, check, message};
}

INSTANTIATE_TEST_SUITE_P(
    EveryKind, BadPlugins,
    ::testing::Values(
        BadPlugin{"without_rtti", "strategy_without_rtti.so", {}, "P01", "build flavour"},
        BadPlugin{"dependent", "strategy_dependent.so", {}, "P02", "libstrata_sample_absent.so"},
        BadPlugin{"without_entry", "strategy_without_entry.so", {}, "P03", "has no function strata_plugin_entry"},
        BadPlugin{"null_factory", "strategy_null_factory.so", {}, "P03", "returned nothing"},
        BadPlugin{"failing", "strategy_failing.so", {}, "P03", "no such hardware"},
        BadPlugin{"mistaken", "model_mistaken.so", {}, "P04", "its factory is that of another kind"},
        BadPlugin{"nameless", "strategy_nameless.so", {}, "P05", "an option has no name"},
        BadPlugin{"repeating", "strategy_repeating.so", {}, "P05", "two options 'size'"},
        BadPlugin{"throwing", "strategy_throwing.so", {}, "P05", "hook 'options' threw an exception of type int"},
        of_strategy("creates_nothing", "nothing", "P06", "hook 'create' returned nothing"),
        of_strategy("throws_a_number", "number", "P06", "hook 'create' threw an exception of type int"),
        of_strategy("throws_of_the_library", "standard", "P06", "hook 'create' threw std::out_of_range: too far"),
        of_strategy("axis_without_work", "none", "P09", "which shards nothing"),
        of_strategy("axis_without_work_alone", "none", "S01", "and a run that it fits with --config"),
        BadPlugin{"choices_without_work",
                  "strategy_sample.so",
                  {},
                  "S05",
                  ". A run in which one holds can be given with --config"},
        BadPlugin{"signal", "strategy_crashing.so", {"strategy.fault=create: abort"}, "P06", "ended by signal 6"},
        BadPlugin{"exit", "strategy_crashing.so", {"strategy.fault=create: exit"}, "P06", "ended with exit code 3"},
        BadPlugin{"kernel_alone", "library_kernel_alone.so", {}, "K01", "a kernel for op 'doubled', which no"},
        of_ops("wrong_gradient", "gradient=wrong", "K02", "the gradient of op 'tripled'"),
        of_ops("wrong_kernel", "kernel=wrong", "K03", "the kernel of op 'tripled', f32 -> f32"),
        BadPlugin{"model_builds_nothing", "model_sample_model.so", {"model.fault=build throws"}, "P09", "too far"},
        of_optimizer("update_throws", "update throws", "P09", "hook 'update' threw an exception of type int"),
        of_optimizer("wrong_definition", "wrong definition", "O01", "differs from one rank's by"),
        of_dataset("fingerprint_throws", "fingerprint throws", "D01", "hook 'fingerprint' threw"),
        of_dataset("large_token", "large token", "D02", "found 16; accepted: 0 to 15"),
        of_dataset("read_fails_later", "read fails later", "D03", "'disk': found nothing"),
        of_dataset("all_samples_equal", "none", "D08", "is one of the first training samples"),
        BadPlugin{"connects_to_nothing", "communicator_faulty_communicator.so", {}, "C01", "connect() returns nothing"},
        BadPlugin{
            "device_without_memory", "device_faulty_device.so", {"device.fault=allocate"}, "V01", "null pointer"}),
    [](const auto& info) { return info.param.name; });

TEST(ConformanceReport, PassesAnOptimizerWhoseStateHasADimensionTwice) {
  const CommandResult result =
      check("optimizer_paired_rows.so", {"--only", "O01", "--only", "O02", "--only", "O03", "--only", "O04"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.messages;
  EXPECT_THAT(numbers(json::parse(result.out), "passed"), ::testing::ElementsAre("O01", "O02", "O03", "O04"));
}

TEST(ConformanceReport, SkipsWhatAFailedGateCloses) {
  const json report = json::parse(check("model_mistaken.so", {}).out);
  EXPECT_THAT(numbers(report, "passed"), ::testing::ElementsAre("P01", "P02", "P03"));
  EXPECT_THAT(numbers(report, "failed"), ::testing::ElementsAre("P04"));
  EXPECT_GT(numbers(report, "skipped").size(), 5U);
}

TEST(ConformanceReport, NamesTheGateThatNobodyAskedFor) {
  const json report = json::parse(check("strategy_without_entry.so", {"--only", "S01"}).out);
  EXPECT_THAT(numbers(report, "failed"), ::testing::ElementsAre("P03"));
}

TEST(ConformanceReport, RefusesChecksOfOtherKindsAndAbsentFiles) {
  const CommandResult number = check("strategy_sample.so", {"--only", "O01"});
  EXPECT_EQ(number.exit_code, 2);
  EXPECT_THAT(number.messages, HasSubstr("--only: found 'O01'; accepted: the checks of a strategy: P01, "));
  EXPECT_EQ(check("no_such_plugin.so", {}).exit_code, 2);
  EXPECT_EQ(check("strategy_sample.so", {"--config", "/nowhere.toml"}).exit_code, 2);
  const CommandResult option = check("strategy_sample.so", {"--set", "strategy.sice=3"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.messages, HasSubstr("did you mean 'size'?"));
}

TEST(ConformanceReport, FindsThatAFileIsNoPlugin) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("text.so", "no ELF").string();
  const CommandResult result = run_command({"plugins", "check", file});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("it is no ELF file"));
  EXPECT_THAT(result.out, HasSubstr("\nthe file: 0 passed, 1 failed, "));
}

/// The commands that load plugins, on a run that selects a faulty one.
TEST(Commands, SurviveEveryBadPlugin) {
  ::setenv("STRATA_PLUGIN_PATH", sample_plugin_folder().c_str(), 1);
  const test::TemporaryFolder folder;
  const std::string config =
      folder
          .file("run.toml", "[run]\nsteps = 1\noutput = \"" + (folder.path() / "out").string() +
                                "\"\n[model]\nplugin = \"sample_model\"\n[data]\npath = \"" +
                                folder.file("text.txt", std::string(400, 'x')).string() +
                                "\"\n[batch]\nglobal = 4\nmicro = 4\n[device]\nplugin = \"reference\"\n")
          .string();
  const auto expect_no_crash = [](const std::vector<std::string>& arguments) {
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.signal, 0) << ::testing::PrintToString(arguments) << result.messages;
    EXPECT_THAT(result.exit_code, ::testing::AnyOf(0, 1, 2)) << ::testing::PrintToString(arguments);
  };
  expect_no_crash({"plugins", "list"});
  expect_no_crash({"plugins", "ops"});
  for (const char* strategy : {"null_factory", "without_entry", "failing", "dependent", "without_rtti", "nameless",
                               "repeating", "throwing", "faulty", "mistaken"}) {
    expect_no_crash({"plugins", "show", strategy});
    for (const char* command : {"check", "verify", "train"}) {
      if (testing::kSanitized && std::string(command) != "check") continue;
      expect_no_crash({command, config, "--set", "strategy=[{plugin=\"" + std::string(strategy) + "\"}]"});
    }
  }
  ::unsetenv("STRATA_PLUGIN_PATH");
}

}  // namespace
}  // namespace strata::host
