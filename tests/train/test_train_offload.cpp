#include <gmock/gmock.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint/checkpoint.hpp"
#include "command_runner.hpp"
#include "small_run.hpp"

/// \file
/// Runs of the command line whose optimizer states and parameters are stored outside of the device.

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kHost = "offload_optimizer=\"host\"";
const std::string kFile = "offload_optimizer=\"file\"";
const std::string kAllInHost = kHost + ", offload_param=\"host\"";
const std::string kAllInFile = kFile + ", offload_param=\"file\"";

class OffloadedRun : public ::testing::Test {
 protected:
  /// Arguments of a run on two ranks. Learning rates do not depend on the number of steps.
  [[nodiscard]] std::vector<std::string> command(const std::string& verb, int stage, const std::string& options,
                                                 const std::string& output = "output") const {
    const std::string more = options.empty() ? "" : ", " + options;
    return {verb,
            config_,
            "--set",
            "strategy=[{plugin=\"zero\", size=2, bucket_mb=0.01, stage=" + std::to_string(stage) + more + "}" +
                precision_ + "]",
            "--set",
            "run.output=" + path(output),
            "--set",
            "run.eval_every=3",
            "--set",
            "optimizer.schedule={kind=\"constant\"}"};
  }
  [[nodiscard]] std::vector<std::string> train(int stage, const std::string& options, const std::string& output,
                                               int steps, const std::string& resume = "") const {
    std::vector<std::string> arguments = command("train", stage, options, output);
    for (const std::string& each :
         {std::string("--steps"), std::to_string(steps), std::string("--log-json"), path(output + ".log")}) {
      arguments.push_back(each);
    }
    if (!resume.empty()) arguments.insert(arguments.end(), {"--resume", path(resume)});
    return arguments;
  }
  /// Trains in a new folder, unless it continues there.
  void run(int stage, const std::string& options, const std::string& output, int steps,
           const std::string& resume = "") const {
    if (resume != output) fs::remove_all(path(output));
    const CommandResult result = run_command(train(stage, options, output, steps, resume));
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] std::vector<json> log_lines(const std::string& output) const {
    std::vector<json> lines;
    std::ifstream stream(path(output + ".log"));
    for (std::string line; std::getline(stream, line);) {
      json value = json::parse(line, nullptr, false);
      if (!value.is_discarded()) lines.push_back(std::move(value));
    }
    return lines;
  }
  /// Losses of steps and evaluations.
  [[nodiscard]] std::vector<double> losses(const std::string& output) const {
    std::vector<double> found;
    for (const json& line : log_lines(output)) {
      if (line.contains("loss")) found.push_back(line.at("loss"));
    }
    return found;
  }
  [[nodiscard]] std::string last_tensors(const std::string& output) const {
    const fs::path checkpoint = find_checkpoint(path(output));
    return test::read_file(checkpoint / "rank-00000.safetensors") +
           test::read_file(checkpoint / "rank-00001.safetensors");
  }

  test::TemporaryFolder folder_;
  /// A strategy table that follows zero.
  std::string precision_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

/// Also in 16-bit precision, in which the states have a master copy and the first steps overflow and are skipped.
TEST_F(OffloadedRun, IsBitwiseEqualToOneOnTheDevice) {
  const std::string bf16 = ", {plugin=\"precision\", compute=\"bf16\"}";
  const std::string overflowing = ", {plugin=\"precision\", compute=\"fp16\", initial_scale=1e12, backoff_factor=0.01}";
  const std::vector<std::tuple<int, std::string, std::string, std::vector<std::string>>> rows{
      {1, "", "plain1", {kHost, kFile}},
      {3, "", "plain3", {kHost, kAllInHost, kAllInFile}},
      {2, bf16, "plain2", {kFile}},
      {3, overflowing, "plain16", {kAllInHost, kFile}}};
  for (const auto& [stage, precision, plain, variants] : rows) {
    precision_ = precision;
    run(stage, "", plain, 6);
    EXPECT_EQ(log_lines(plain).front().contains("skipped"), precision == overflowing);
    EXPECT_FALSE(log_lines(plain).back().contains("planned_offload_bytes"));
    for (const std::string& options : variants) {
      run(stage, options, "offloaded", 6);
      EXPECT_EQ(losses("offloaded"), losses(plain)) << options;
      EXPECT_EQ(last_tensors("offloaded"), last_tensors(plain)) << options;
      const json summary = log_lines("offloaded").back();
      EXPECT_EQ(summary.at("planned_peak_bytes"), summary.at("arena_peak_bytes")) << options;
      EXPECT_EQ(summary.at("planned_offload_bytes"), summary.at("offload_peak_bytes")) << options;
      for (const json& rank : summary.at("planned_offload_bytes")) {
        EXPECT_GT(rank.at(options.find("host") != std::string::npos ? "host" : "file"), 10'000) << options;
      }
      EXPECT_LT(summary.at("planned_peak_bytes").at(0), log_lines(plain).back().at("planned_peak_bytes").at(0));
    }
  }
}

TEST_F(OffloadedRun, ACheckpointDoesNotKnowWhereItsTensorsLay) {
  run(3, "", "whole", 6);
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", kAllInFile}, {kAllInFile, ""}, {kAllInHost, kAllInFile}, {kFile, kAllInHost}};
  for (const auto& [before, after] : rows) {
    run(3, before, "before", 3);
    run(3, after, "after", 6, "before");
    EXPECT_EQ(last_tensors("after"), last_tensors("whole")) << before << " then " << after;
  }
}

TEST_F(OffloadedRun, AKilledRunLeavesNoFile) {
  const std::string directory = path("offload");
  RunningCommand running(train(3, kAllInFile + ", offload_directory=\"" + directory + "\"", "killed", 100'000));
  while (log_lines("killed").size() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(running.end(SIGKILL).signal, SIGKILL);
  EXPECT_TRUE(fs::is_directory(directory));
  EXPECT_TRUE(fs::is_empty(directory));
}

TEST_F(OffloadedRun, ADirectoryThatCannotBeEndsItBeforeItStarts) {
  const std::string directory = folder_.file("file", "text").string();
  const CommandResult result = run_command(train(1, kFile + ", offload_directory=\"" + directory + "\"", "refused", 3));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.messages, AllOf(HasSubstr("offload directory '" + directory + "'"), HasSubstr("directory")));
  EXPECT_TRUE(losses("refused").empty());
}

TEST_F(OffloadedRun, CheckAndExplainSayWhatLiesWhere) {
  const std::string options = kFile + ", offload_param=\"host\"";
  const CommandResult checked = run_command(command("check", 3, options));
  ASSERT_EQ(checked.exit_code, 0) << checked.messages;
  EXPECT_THAT(checked.out, AllOf(HasSubstr(" of host memory"), HasSubstr(" in a file")));
  const CommandResult explained = run_command(command("explain", 3, options));
  EXPECT_THAT(explained.out, AllOf(HasSubstr("file to device"), HasSubstr("device to host")));
  std::vector<std::string> arguments = command("explain", 3, options);
  arguments.emplace_back("--json");
  const json report = json::parse(run_command(arguments).out).at("offload");
  ASSERT_EQ(report.at("ranks").size(), 2U);
  EXPECT_GT(report.at("ranks").at(1).at("file_bytes"), report.at("ranks").at(1).at("host_bytes"));
  EXPECT_EQ(report.at("transfers").size(), 4U);
}

}  // namespace
}  // namespace strata::host
