#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <thread>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "command_runner.hpp"
#include "files/file_io.hpp"
#include "huggingface/export_model.hpp"
#include "loading/plugin_registry.hpp"
#include "small_run.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TrainCommandTest : public ::testing::Test {
 protected:
  /// Arguments of a run on two ranks.
  [[nodiscard]] std::vector<std::string> train(const std::vector<std::string>& more = {},
                                               const std::string& output = "output") const {
    std::vector<std::string> arguments{"train",      config_, "--set",
                                       test::ddp(2), "--set", "run.output=" + (folder_.path() / output).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// The complete lines of a log. A line that a kill cut off is omitted.
  [[nodiscard]] static std::vector<json> log_lines(const fs::path& file) {
    std::vector<json> lines;
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      json value = json::parse(line, nullptr, false);
      if (!value.is_discarded()) lines.push_back(std::move(value));
    }
    return lines;
  }
  /// The loss of every step in a log. If a step was repeated, all of its losses must be equal.
  [[nodiscard]] static std::map<std::uint64_t, double> losses(const fs::path& file) {
    std::map<std::uint64_t, double> result;
    for (const json& line : log_lines(file)) {
      if (line.contains("event")) continue;
      const auto [place, added] = result.emplace(line.at("step"), line.at("loss"));
      EXPECT_EQ(place->second, line.at("loss").get<double>()) << "step " << place->first;
    }
    return result;
  }
  [[nodiscard]] std::string last_tensors(const std::string& output) const {
    return test::read_file(find_checkpoint(folder_.path() / output) / "rank-00000.safetensors");
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

TEST_F(TrainCommandTest, WritesLogResultAndCheckpoint) {
  const CommandResult result =
      run_command(train({"--steps", "5", "--log-json", path("log"), "--set", "run.eval_every=2"}));
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.out, HasSubstr("steps 5\n"));
  EXPECT_THAT(result.out, HasSubstr("validation loss "));
  EXPECT_THAT(result.messages, HasSubstr("step 5/5  loss "));
  EXPECT_THAT(result.messages, Not(HasSubstr("\x1b"))) << "no terminal";

  std::vector<json> lines = log_lines(path("log"));
  ASSERT_EQ(lines.size(), 5U + 5U + 3U + 1U + 1U);
  for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens_per_second", "step_seconds"}) {
    EXPECT_TRUE(lines[0].contains(key)) << key;
  }
  EXPECT_EQ(lines[0].at("lr"), 0.005) << "half of the warm-up";
  EXPECT_EQ(lines[1].at("event"), "ranks");
  EXPECT_EQ(lines[4].at("event"), "eval");
  const json& summary = lines.back();
  EXPECT_EQ(summary.at("event"), "summary");
  EXPECT_EQ(summary.at("planned_peak_bytes"), summary.at("arena_peak_bytes"));
  EXPECT_EQ(summary.at("planned_peak_bytes").size(), 2U);
  EXPECT_GT(summary.at("peak_rss_bytes"), 1 << 20);
  EXPECT_GT(summary.at("median_tokens_per_second"), 0);
  EXPECT_EQ(CheckpointReader(find_checkpoint(path("output"))).run().step, 5U);
}

TEST_F(TrainCommandTest, LogsPredictionAndMeasurementOfAKnownCluster) {
  std::ofstream(config_, std::ios::app) << "\n[cluster]\nbased_on = \"two-core\"\n";
  const CommandResult result = run_command(train({"--steps", "5", "--log-json", path("log")}));
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  const json summary = log_lines(path("log")).back();
  EXPECT_GT(summary.at("median_step_seconds"), 0);
  EXPECT_GT(summary.at("predicted_step_seconds"), 0);
  EXPECT_THAT(result.out, HasSubstr(" ms, predicted "));
  std::ofstream(config_, std::ios::app) << "nodes = 0\n";
  const CommandResult wrong = run_command(train({"--steps", "2", "--overwrite"}));
  EXPECT_EQ(wrong.exit_code, 0) << "training needs no cluster";
  EXPECT_THAT(wrong.messages, HasSubstr("the time of a step is not predicted: "));
}

TEST_F(TrainCommandTest, KilledAgainAndAgainARunEndsAsIfNeverStopped) {
  const auto run = [&](const std::string& log, const std::string& output) {
    return train({"--steps", "300", "--set", "run.checkpoint_every=10", "--log-json", log, "--resume", "auto"}, output);
  };
  ASSERT_EQ(run_command(run(path("whole.log"), "whole")).exit_code, 0);
  const std::map<std::uint64_t, double> expected = losses(path("whole.log"));
  std::mt19937 random(5);
  int kills = 0;
  for (int round = 0; round < 8; ++round) {
    const std::string log = path("log" + std::to_string(round));
    const std::size_t enough = 1 + random() % 25;
    RunningCommand command(run(log, "output"));
    std::vector<json> lines;
    while (lines.size() < enough && (lines.empty() || lines.back().value("event", "") != "summary")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lines = log_lines(log);
    }
    const CommandResult result = command.end(SIGKILL);
    ASSERT_TRUE(result.exit_code == 0 || result.signal == SIGKILL) << result.messages;
    kills += result.signal == SIGKILL ? 1 : 0;
    for (const auto& [step, loss] : losses(log)) ASSERT_EQ(loss, expected.at(step)) << "step " << step;
  }
  EXPECT_GT(kills, 0);
  const CommandResult result = run_command(run(path("log"), "output"));
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_EQ(last_tensors("output"), last_tensors("whole"));
}

TEST_F(TrainCommandTest, TheLogAlsoHasTheLinesForPeople) {
  // The end of the job is unknown here, and the learning rate ends the run.
  const CommandResult result = run_command(train({"--log-json", path("log"), "--stop-before-job-end", "1h", "--set",
                                                  "optimizer.lr=1e38", "--set", "log.metrics=" + path("metrics")}));
  ASSERT_EQ(result.exit_code, 1) << result.messages;
  const std::vector<json> lines = log_lines(path("log"));
  ASSERT_GT(lines.size(), 2U);
  EXPECT_EQ(lines.front().value("event", ""), "warning");
  EXPECT_THAT(lines.front().value("text", ""), HasSubstr("run.stop_before_job_end has no effect"));
  EXPECT_EQ(lines.back().value("event", ""), "error");
  EXPECT_THAT(result.messages, HasSubstr("error: " + lines.back().value("text", "no text")));
  EXPECT_THAT(test::read_file(path("metrics")), ::testing::ContainsRegex("\nstrata_running\\{[^}]*\\} 0\n"));
}

TEST_F(TrainCommandTest, AFinishedRunHasNothingLeftToDo) {
  ASSERT_EQ(run_command(train({"--steps", "3"})).exit_code, 0);
  const CommandResult again = run_command(train({"--steps", "3", "--resume", path("output")}));
  EXPECT_EQ(again.exit_code, 0) << again.messages;
  EXPECT_THAT(again.out, HasSubstr("steps 3\n"));
}

/// The first file that a program opens takes the place of a closed stream.
TEST_F(TrainCommandTest, ClosedStreamsDoNotBecomeFilesOfTheRun) {
  std::string command = "exec";
  for (const std::string& word : train({"--steps", "3", "--log-json", path("log")})) command += " '" + word + "'";
  command.insert(4, " '" + build_path("bin/strata") + "'");
  ASSERT_EQ(std::system((command + " <&- >&- 2>&-").c_str()), 0);
  const std::string log = test::read_file(path("log"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), std::ssize(log_lines(path("log")))) << log;
  EXPECT_EQ(test::read_file(folder_.path() / "output" / ".lock"), "");
}

struct Refusal {
  std::vector<std::string> arguments;
  int exit_code;
  std::string message;
};

TEST_F(TrainCommandTest, WhatCannotBeIsOneMessage) {
  const std::string blocked = folder_.file("blocked", "a file").string();
  const std::string empty = folder_.file("empty.txt", "").string();
  const std::string short_text = folder_.file("short.txt", "short").string();
  const std::vector<Refusal> refusals{
      {{"--set", "data.path=nothing.txt"}, 2, "data.path: 'nothing.txt': cannot be opened: No such file or directory"},
      {{"--set", "data.path=" + empty}, 2, "'" + empty + "': the file is empty"},
      {{"--set", "data.path=" + short_text}, 2, "a context of 8 needs at least 9"},
      {{"--set", "batch.global=10"}, 2, "batch.global: found 10; accepted: a multiple of 4"},
      {{"--set", "model.heads=3"}, 2, "do not divide embed"},
      {{"--resume", path("nowhere")}, 2, "'" + path("nowhere") + "': there is no such checkpoint"},
      {{"--log-json", path("no/log")}, 2, "cannot be opened"},
      {{"--set", "run.output=" + blocked + "/x"}, 1, blocked},
      {{"--steps", "0"}, 2, "--steps"},
  };
  for (const Refusal& refusal : refusals) {
    const CommandResult result = run_command(train(refusal.arguments));
    EXPECT_EQ(result.exit_code, refusal.exit_code) << refusal.message;
    EXPECT_THAT(result.messages, HasSubstr("error: "));
    EXPECT_THAT(result.messages, HasSubstr(refusal.message));
    EXPECT_EQ(std::count(result.messages.begin(), result.messages.end(), '\n'), 1) << result.messages;
    EXPECT_THAT(result.out, IsEmpty());
  }
}

/// What names of files, options and runs hold does not reach a terminal as its commands.
TEST_F(TrainCommandTest, ForeignTextIsPrintedWithoutCommandsOfTheTerminal) {
  const std::string evil = "\x1b[31mx";
  const std::vector<std::vector<std::string>> commands{
      {evil},
      {"train", config_, "--" + evil},
      {"check", path(evil + ".toml")},
      {"check", path(evil + ".toml"), "--json"},
      {"train", config_, "--set", "run.name=\"a\\u001b[31mx\""},
      {"train", config_, "--set", "model." + evil + "=1"},
      {"train", config_, "--set", "run.output=" + path(evil), "--steps", "1"},
      {"evaluate", path("no" + evil)},
      {"plot", path(evil), "--output", path("x.svg")},
      {"tokenize", path(evil), path(evil), "--output", path("x")}};
  for (const std::vector<std::string>& words : commands) {
    const CommandResult result = run_command(words);
    EXPECT_THAT(result.out + result.messages, Not(HasSubstr("\x1b"))) << words[0];
    EXPECT_THAT(result.out + result.messages, HasSubstr("1b[31mx")) << words[0];
  }
}

TEST_F(TrainCommandTest, NamesThatBecomePathsAreOfOneFolder) {
  for (const char* name : {"../..", "a/b", ".hidden", "", "a\\nb"}) {
    const CommandResult result = run_command({"check", config_, "--set", "run.name=\"" + std::string(name) + "\""});
    EXPECT_EQ(result.exit_code, 2) << name;
    EXPECT_THAT(result.messages, HasSubstr("run.name: found \"")) << name;
  }
  EXPECT_EQ(run_command({"check", config_, "--set", "run.name=\"Versuch 7: groß\""}).exit_code, 0);
  const CommandResult bytes = run_command({"check", config_, "--set", "run.output=\xff"});
  EXPECT_EQ(bytes.exit_code, 2);
  EXPECT_THAT(bytes.messages, HasSubstr("found bytes that are not UTF-8"));
}

/// A refused run leaves nothing that was not there.
TEST_F(TrainCommandTest, ARefusedRunLeavesNothing) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& output) {
    const CommandResult result = run_command(train(more, output));
    EXPECT_EQ(result.exit_code, 2) << result.messages;
  };
  refused({"--set", "model.heads=3"}, "new/one");
  refused({"--resume", path("nowhere")}, "new/two");
  refused({"--log-json", path("no/log")}, "new/three");
  refused({"--set", "model.heads=3", "--log-json", path("new.log")}, "new/four");
  EXPECT_FALSE(fs::exists(path("new.log")));
  EXPECT_FALSE(fs::exists(path("new")));
  ASSERT_EQ(run_command(train({"--steps", "2"})).exit_code, 0);
  fs::create_directories(path("output/diagnosis"));
  refused({"--resume", "auto", "--set", "run.seed=12"}, "output");
  EXPECT_TRUE(fs::exists(path("output/diagnosis")));
  EXPECT_FALSE(fs::exists(path("output/diagnosis.1")));
}

TEST_F(TrainCommandTest, LogsAreNotWrittenThroughALink) {
  const fs::path victim = folder_.file("victim", "untouched");
  fs::create_symlink(victim, path("log"));
  const CommandResult result = run_command(train({"--steps", "1", "--log-json", path("log")}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("' is a symbolic link; accepted: the name of the file itself"));
  EXPECT_EQ(test::read_file(victim), "untouched");
}

TEST_F(TrainCommandTest, ALinkWithoutTargetIsNamed) {
  fs::create_symlink(path("gone"), path("output"));
  const CommandResult result = run_command(train({"--steps", "1"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, HasSubstr("is a symbolic link to '" + path("gone") + "', which does not exist"));
}

TEST_F(TrainCommandTest, AFolderInThePlaceOfTheFileLatestIsMoved) {
  fs::create_directories(path("output/checkpoints/latest/kept"));
  const CommandResult result = run_command(train({"--steps", "1"}));
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("latest' was a folder, where the file with the newest checkpoint's name"));
  EXPECT_TRUE(fs::exists(path("output/checkpoints/latest.moved-1/kept")));
  EXPECT_EQ(test::read_file(path("output/checkpoints/latest")), "step-00000001\n");
}

TEST_F(TrainCommandTest, FilesForMonitoringReplaceNoDevice) {
  for (const char* key : {"log.metrics", "log.heartbeat"}) {
    const CommandResult result = run_command(train({"--steps", "1", "--set", std::string(key) + "=/dev/null"}));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.messages, HasSubstr(std::string(key) + ": '/dev/null' is no regular file"));
  }
}

/// A core dump of a process that knows the secret of its run would hold it.
TEST_F(TrainCommandTest, AProcessWithTheSecretOfItsRunDumpsNoCore) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &before), 0);
  if (before.rlim_max < 2) GTEST_SKIP() << "this machine has no core dumps";
  const rlimit many{before.rlim_max, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_CORE, &many), 0);
  ::setenv("STRATA_SECRET", "a secret of this test", 1);
  RunningCommand command(train({"--set", "run.steps=1000000"}));
  ::unsetenv("STRATA_SECRET");
  ASSERT_EQ(::setrlimit(RLIMIT_CORE, &before), 0);
  while (command.messages().find("step 1/") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string limits = test::read_file("/proc/" + std::to_string(command.id()) + "/limits");
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max core file size +1 "));
}

TEST_F(TrainCommandTest, ExportingNeedsNoDeviceAndFollowsNoLink) {
  ASSERT_EQ(run_command(train({"--steps", "1"})).exit_code, 0);
  const fs::path checkpoint = find_checkpoint(path("output"));
  fs::create_directories(path("plugins"));
  for (const char* plugin : {"model_gpt2.so", "dataset_tokens.so", "optimizer_adamw.so", "strategy_ddp.so"}) {
    fs::copy_file(build_path("lib/strata/plugins") / fs::path(plugin), path("plugins") / fs::path(plugin));
  }
  PluginRegistry registry({path("plugins")});
  EXPECT_NO_THROW((void)export_model(CheckpointReader(checkpoint), registry, path("exported"), {}));
  EXPECT_TRUE(fs::exists(path("exported/model.safetensors")));
  // A tokenizer that is a link.
  Manifest manifest = read_manifest(checkpoint / kManifestName);
  fs::create_directories(checkpoint / "tokenizer");
  const std::string secret = "elsewhere";
  fs::create_symlink(folder_.file("secret", secret), checkpoint / "tokenizer/tokenizer.json");
  manifest.files["tokenizer/tokenizer.json"] = {secret.size(), checksum_of(std::as_bytes(std::span(secret)))};
  replace_file(checkpoint / kManifestName, to_json(manifest));
  const CommandResult result = run_command({"export", checkpoint.string(), path("other")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, HasSubstr("tokenizer.json': is or lies in a symbolic link"));
  EXPECT_FALSE(fs::exists(path("other")));
}

TEST_F(TrainCommandTest, AnAlteredCheckpointIsRefusedByName) {
  ASSERT_EQ(run_command(train({"--steps", "2"})).exit_code, 0);
  const fs::path file = find_checkpoint(path("output")) / "rank-00000.safetensors";
  std::string bytes = test::read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  const CommandResult result = run_command(train({"--steps", "4", "--resume", path("output")}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, HasSubstr("'" + file.string() + "' was altered"));
}

TEST_F(TrainCommandTest, TwoRunsCannotShareAnOutputFolder) {
  RunningCommand first(train({"--steps", "1000000", "--log-json", path("log")}));
  while (log_lines(path("log")).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const CommandResult second = run_command(train());
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.messages, HasSubstr("in use by another run"));
  EXPECT_EQ(first.end(SIGTERM).exit_code, 75);
}

}  // namespace
}  // namespace strata::host
