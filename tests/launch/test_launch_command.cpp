#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "build_paths.hpp"
#include "checkpoint/checkpoint.hpp"
#include "train/command_runner.hpp"
#include "train/small_run.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string strategy(const std::string& text) { return "strategy=[{" + text + ", size=2}]"; }

class LaunchCommand : public ::testing::TestWithParam<std::string> {
 protected:
  LaunchCommand() { ::setenv("STRATA_PLUGIN_PATH", build_path("tests/launch/samples").c_str(), 1); }
  ~LaunchCommand() override { ::unsetenv("STRATA_PLUGIN_PATH"); }

  /// Arguments of a run on two ranks by `command`.
  [[nodiscard]] std::vector<std::string> arguments(const std::string& command, const std::string& output,
                                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{
        command,      config_,
        "--set",      "run.output=" + path(output),
        "--set",      "communicator.plugin=" + std::string(command == "launch" ? "exchange" : "local"),
        "--log-json", path(output + ".log")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] std::vector<std::string> launch(const std::vector<std::string>& more) const {
    std::vector<std::string> all = arguments("launch", "output", {"--set", test::ddp(2)});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// A run's log without times. The summary is replaced by its values per rank.
  [[nodiscard]] std::vector<std::string> log(const std::string& output) const {
    std::vector<std::string> lines;
    std::istringstream stream(test::read_file(path(output + ".log")));
    for (std::string line; std::getline(stream, line);) {
      json value = json::parse(line);
      // A checkpoint is told of when it is complete, at any later step.
      if (value.value("event", "") == "checkpoint") continue;
      for (const char* time :
           {"tokens_per_second", "model_flops_per_second", "arena_bytes", "rss_bytes", "step_seconds", "wait_seconds",
            "data_wait_seconds", "median_tokens_per_second", "median_step_seconds", "peak_rss_bytes", "time"}) {
        value.erase(time);
      }
      lines.push_back(value.dump());
    }
    return lines;
  }
  /// The bytes of the last checkpoint's tensors.
  [[nodiscard]] std::string tensors(const std::string& output) const {
    std::string bytes;
    for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
      bytes += test::read_file(find_checkpoint(path(output)) / name);
    }
    return bytes;
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

TEST_P(LaunchCommand, TrainsAsThreadsOfOneProcessDo) {
  const std::vector<std::string> settings{
      "--set", GetParam(), "--set", "run.eval_every=3", "--set", "run.checkpoint_every=2"};
  const CommandResult threads = run_command(arguments("train", "threads", settings));
  ASSERT_EQ(threads.exit_code, 0) << threads.messages;
  const CommandResult processes = run_command(arguments("launch", "processes", settings));
  ASSERT_EQ(processes.exit_code, 0) << processes.messages;

  EXPECT_EQ(log("processes"), log("threads"));
  EXPECT_FALSE(log("threads").empty());
  EXPECT_TRUE(tensors("processes") == tensors("threads"));
  EXPECT_EQ(processes.out.find("steps 8\n"), 0U);
  EXPECT_EQ(processes.out.find("steps", 1), std::string::npos) << "one rank reports";
  EXPECT_THAT(processes.messages, AllOf(HasSubstr("step 8/8"), HasSubstr("2 rank(s)"), Not(HasSubstr("[rank 1]"))));
}

INSTANTIATE_TEST_SUITE_P(Strategies, LaunchCommand,
                         ::testing::Values(strategy("plugin=\"ddp\""), strategy("plugin=\"zero\", stage=3"),
                                           strategy("plugin=\"tensor\""), strategy("plugin=\"pipeline\"")),
                         [](const auto& info) {
                           const std::size_t begin = info.param.find('"') + 1;
                           return info.param.substr(begin, info.param.find('"', begin) - begin);
                         });

using LaunchCommandFaults = LaunchCommand;

TEST_F(LaunchCommandFaults, GoesOnFromACheckpoint) {
  ASSERT_EQ(run_command(arguments("launch", "whole", {"--set", test::ddp(2)})).exit_code, 0);
  ASSERT_EQ(run_command(arguments("launch", "parts", {"--set", test::ddp(2), "--steps", "3"})).exit_code, 0);
  const CommandResult rest =
      run_command(arguments("launch", "parts", {"--set", test::ddp(2), "--resume", path("parts")}));
  ASSERT_EQ(rest.exit_code, 0) << rest.messages;
  EXPECT_THAT(rest.messages, HasSubstr("resuming after step 3"));
  EXPECT_TRUE(tensors("parts") == tensors("whole"));
}

TEST_F(LaunchCommandFaults, RefusesWhatCannotBe) {
  const auto refused = [&](const std::vector<std::string>& more, const auto& matcher) {
    const CommandResult result = run_command(launch(more));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.messages, matcher);
  };
  refused({"--ranks", "3"}, HasSubstr("--ranks: found 3; accepted: 2"));
  refused({"--set", "model.layers=none"}, HasSubstr("model.layers"));
  refused({"--set", "communicator.plugin=local"},
          AllOf(HasSubstr("communicator"), HasSubstr("found 'local', which runs all ranks in one process"),
                HasSubstr("ended with exit code 2")));
}

TEST_F(LaunchCommandFaults, SaysWhichRankFailed) {
  const CommandResult result =
      run_command(launch({"--set", "communicator.faulty_rank=1", "--set", "communicator.calls=20"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, AllOf(HasSubstr("[rank 1] error: "), HasSubstr("this rank was told to fail"),
                                     HasSubstr("rank 1 ended with exit code 1")));
}

TEST_F(LaunchCommandFaults, EndsTheOthersWhenOneDies) {
  const CommandResult result =
      run_command(launch({"--set", "communicator.faulty_rank=1", "--set", "communicator.silent=true", "--set",
                          "communicator.calls=20", "--set", "run.steps=1000000"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages,
              HasSubstr("error: rank 1 was ended by signal 9 (Killed), then rank 0 ended with exit code 1"));
  EXPECT_THAT(result.messages, HasSubstr("rank 1 (127.0.0.1) has ended without a word"));
}

TEST_F(LaunchCommandFaults, PassesAnInterruptOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningCommand command(launch({"--set", "run.steps=1000000", "--overwrite"}));
    while (command.messages().find("step 5/") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const CommandResult result = command.end(signal);
    EXPECT_EQ(result.exit_code, 75) << result.messages;
    EXPECT_THAT(result.messages, HasSubstr("stopped after step "));
    EXPECT_TRUE(fs::exists(find_checkpoint(path("output"))));
  }
}

}  // namespace
}  // namespace strata::host
