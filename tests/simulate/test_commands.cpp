#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "build_paths.hpp"
#include "train/command_runner.hpp"

namespace strata::host::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// Two ranks in a pipeline, of data that is not there.
constexpr const char* kRun = R"(
[run]
name = "small"
[model]
plugin = "gpt2"
layers = 2
heads = 2
embed = 16
context = 8
[data]
plugin = "text"
path = "missing.txt"
[batch]
global = 8
micro = 2
[device]
plugin = "cpu"
[communicator]
plugin = "local"
[[strategy]]
plugin = "pipeline"
size = 2
)";

class Commands : public ::testing::Test {
 protected:
  Commands() { std::ofstream(run_) << kRun; }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  CommandResult simulate(const std::string& cluster, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"simulate", run_, "--cluster", cluster, "--vocab", "64"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }

  TemporaryFolder folder_;
  std::string run_ = path("run.toml");
};

TEST_F(Commands, SimulatePrintsTheStep) {
  const CommandResult result = simulate("dgx-h100");
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  for (const char* line : {"cluster     dgx-h100", "step        ", "memory      ", "bound by    ", "bubble      "}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
}

TEST_F(Commands, SimulateDecidesWhatIsOpen) {
  const auto simulate_with = [&](const std::vector<std::string>& options) {
    std::vector<std::string> more{"--json"};
    for (const std::string& each : options) more.insert(more.end(), {"--set", "strategy.0." + each});
    const CommandResult result = simulate("dgx-h100", more);
    EXPECT_EQ(result.exit_code, 0) << result.messages;
    return json::parse(result.out).at("step_seconds").get<double>();
  };
  EXPECT_LE(simulate_with({"schedule=auto"}), simulate_with({"schedule=1f1b"}));
  EXPECT_LE(simulate_with({"split=auto"}), simulate_with({"split=even"}));
  const CommandResult checked =
      run_command({"check", run_, "--cluster", "dgx-h100", "--vocab", "64", "--set", "strategy.0.schedule=auto"});
  EXPECT_EQ(checked.exit_code, 0) << checked.messages;
  EXPECT_THAT(checked.out, HasSubstr("note: strategy 1 'pipeline' by simulation on dgx-h100: schedule = "));
  EXPECT_EQ(run_command({"check", run_, "--vocab", "64", "--set", "strategy.0.schedule=auto"}).exit_code, 2);
}

TEST_F(Commands, SimulateWritesPicturesAndQuantiles) {
  const CommandResult result =
      simulate("two-core", {"--json", "--jitter", "10", "--timeline", path("step.svg"), "--trace", path("step.json")});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  const json printed = json::parse(result.out);
  for (const char* key : {"step_seconds", "tokens_per_second", "model_flops_utilization", "hardware_flops_utilization",
                          "peak_bytes", "bubble", "exposed_seconds", "bound"}) {
    EXPECT_TRUE(printed.contains(key)) << key;
  }
  const json& quantiles = printed.at("step_seconds_quantiles");
  EXPECT_LT(quantiles.at("10"), quantiles.at("50"));
  EXPECT_LT(quantiles.at("50"), quantiles.at("99"));
  EXPECT_EQ(simulate("two-core", {"--json", "--jitter", "10"}).out, result.out) << "the draws are always the same";
  const std::string picture = read_file(path("step.svg"));
  EXPECT_THAT(picture, HasSubstr("small on two-core, a unit is "));
  EXPECT_THAT(picture, Not(HasSubstr("communication take none")));
  EXPECT_FALSE(json::parse(read_file(path("step.json"))).at("traceEvents").empty());
}

TEST_F(Commands, SimulateWritesATraceOfEveryRank) {
  ASSERT_EQ(simulate("two-core", {"--chakra", path("traces")}).exit_code, 0);
  for (const char* file : {"step.0.et", "step.1.et"}) EXPECT_FALSE(read_file(path("traces") + "/" + file).empty());
  EXPECT_TRUE(json::parse(read_file(path("traces/groups.json"))).is_object());
}

/// GPT-lite on eight devices, as guides to DeepSpeed print it.
TEST_F(Commands, ExplainPrintsDeepSpeedsEstimate) {
  const CommandResult result =
      run_command({"explain", source_path("configs/ddp.toml"), "--params-only", "--json", "--vocab", "1024", "--set",
                   "strategy.0.size=8", "--set", "model.layers=12", "--set", "model.heads=12", "--set",
                   "model.embed=768", "--set", "model.context=1024"});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  std::map<std::string, double> gibibytes;
  const json report = json::parse(result.out);
  for (const json& row : report.at("estimates")) {
    gibibytes[row.at("name")] = row.at("bytes").get<double>() / (1024.0 * 1024 * 1024);
  }
  constexpr double kPrinted = 0.0005;
  EXPECT_NEAR(gibibytes.at("parameters in f32"), 0.323, kPrinted);
  EXPECT_NEAR(gibibytes.at("ZeRO-2"), 0.484, kPrinted);
  EXPECT_NEAR(gibibytes.at("ZeRO-2, optimizer in host memory"), 0.161, kPrinted);
  EXPECT_NEAR(gibibytes.at("ZeRO-3"), 0.190, kPrinted);
  EXPECT_NEAR(gibibytes.at("ZeRO-3, parameters and optimizer in host memory"), 0.009, kPrinted);
}

TEST_F(Commands, SimulateNeedsACluster) {
  const CommandResult result = run_command({"simulate", run_, "--vocab", "64"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("there is no cluster; accepted: --cluster FILE|NAME"));
  EXPECT_EQ(simulate("two-core", {"--jitter", "-1"}).exit_code, 2);
}

/// What is measured for a run has a time for each of its kernels, and replaces the file that was there.
TEST_F(Commands, CalibrateMeasuresWhatSimulateNeeds) {
  const std::string out = path("here.toml");
  std::ofstream(out) << "nothing";
  const CommandResult measured = run_command({"calibrate", out, "--for", run_, "--vocab", "64"});
  ASSERT_EQ(measured.exit_code, 0) << measured.messages;
  EXPECT_THAT(measured.out, HasSubstr(" measured times in " + out));
  const std::string text = read_file(out);
  for (const char* piece : {"work = \"linear", "work = \"attention\"", "work = \"activation", "work = \"copy\"",
                            "work = \"all_reduce\"", "busy = 2", "cores = "}) {
    EXPECT_THAT(text, HasSubstr(piece));
  }
  const CommandResult predicted = simulate(out, {"--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.messages;
  const double seconds = json::parse(predicted.out).at("step_seconds");
  EXPECT_GT(seconds, 1e-6);
  EXPECT_LT(seconds, 10);
  EXPECT_EQ(run_command({"check", run_, "--cluster", out, "--vocab", "64"}).exit_code, 0);
}

struct BadCalibration {
  std::vector<std::string> arguments;
  const char* message;

  friend void PrintTo(const BadCalibration& bad, std::ostream* out) { *out << bad.message; }
};

class BadCalibrations : public ::testing::TestWithParam<BadCalibration> {};

/// Whatever is wrong is told before anything is measured.
TEST_P(BadCalibrations, AreRefused) {
  std::vector<std::string> arguments{"calibrate"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const CommandResult result = run_command(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCalibrations,
    ::testing::Values(
        BadCalibration{{"/nowhere/node.toml"}, "'/nowhere/node.toml': there is no folder '/nowhere'; accepted: a file"},
        BadCalibration{{"/tmp"}, "'/tmp': found a folder; accepted: a file in a folder that may be written"},
        BadCalibration{{"/tmp/node.toml", "--device", "abacus"}, "abacus"},
        BadCalibration{{"/tmp/node.toml", "--for", "/nowhere/run.toml"}, "/nowhere/run.toml"},
        BadCalibration{{"/tmp/node.toml", "--seconds", "0"}, "--seconds"},
        BadCalibration{{"/tmp/node.toml", "--vocab", "64"}, "--for"}, BadCalibration{{}, "OUT"}));

}  // namespace
}  // namespace strata::host::test
