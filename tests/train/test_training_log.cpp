#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "files/host_name.hpp"
#include "log/run_log.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using nlohmann::json;

/// The records of a log, without the time and the host that each of them carries.
std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> lines;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    json& record = lines.emplace_back(json::parse(line));
    EXPECT_THAT(record.value("time", ""),
                ::testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z"));
    EXPECT_EQ(record.value("host", ""), own_host_name());
    record.erase("time");
    record.erase("host");
  }
  return lines;
}

TEST(TrainingLog, WritesAnObjectALine) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  {
    TrainingLog log(path);
    log.step({.step = 3,
              .loss = 2.5,
              .gradient_norm = 0.1,
              .learning_rate = 1e-3,
              .tokens_per_second = 1000,
              .seconds = 0.5,
              .wait_seconds = 0.25,
              .data_wait_seconds = 0.125,
              .model_flops_per_second = 4e9,
              .utilisation = 0.5,
              .memory = {.planned_bytes = 4096, .arena_bytes = 1024, .resident_bytes = 8192},
              .group_norms = {{"h.0", 0.08}, {"wte", 0.06}},
              .metrics = {{"load.0.largest", 1.5}, {"load.largest", 1.5}}});
    log.evaluation({.step = 3, .loss = 2.25, .tokens = 640, .data_wait_seconds = 0.5, .metrics = {{"accuracy", 0.75}}});
    log.checkpoint({.step = 3,
                    .path = "checkpoints/step-00000003",
                    .bytes = 4096,
                    .pause_seconds = 0.5,
                    .wait_seconds = 0.25,
                    .write_seconds = 2});
    log.summary({3, 2.5, 2.25, 900, 0.5, 0.25, 1 << 20, {10, 20}, {10, 20}});
    log.message({false, "the disk 'x\xff' is nearly full"});
    log.message({true, "the disk is full"});
  }
  const std::vector<json> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[4], json::parse(R"({"event":"warning","text":"the disk 'x\ufffd' is nearly full"})"));
  EXPECT_EQ(lines[5], json::parse(R"({"event":"error","text":"the disk is full"})"));
  EXPECT_EQ(lines[0], json::parse(R"({"step":3,"loss":2.5,"grad_norm":0.1,"lr":0.001,"tokens_per_second":1000.0,
                                      "model_flops_per_second":4e9,"mfu":0.5,"step_seconds":0.5,"wait_seconds":0.25,
                                      "data_wait_seconds":0.125,"arena_bytes":1024,"rss_bytes":8192,
                                      "grad_norms":{"h.0":0.08,"wte":0.06},
                                      "metrics":{"load.0.largest":1.5,"load.largest":1.5}})"));
  EXPECT_EQ(
      lines[1],
      json::parse(R"({"event":"eval","step":3,"loss":2.25,"tokens":640,"data_wait_seconds":0.5,"weights":"trained",
                      "metrics":{"accuracy":0.75}})"));
  EXPECT_EQ(lines[2], json::parse(R"({"event":"checkpoint","step":3,"path":"checkpoints/step-00000003","bytes":4096,
                                      "pause_seconds":0.5,"wait_seconds":0.25,"write_seconds":2.0})"));
  EXPECT_EQ(lines[3], json::parse(R"({"event":"summary","step":3,"median_tokens_per_second":900.0,
                                      "median_step_seconds":0.5,"predicted_step_seconds":0.25,
                                      "peak_rss_bytes":1048576,"planned_peak_bytes":[10,20],
                                      "arena_peak_bytes":[10,20],"eval_loss":2.25})"));
}

// The disk is full for a while: whole lines are lost, and later ones are written.
TEST(TrainingLog, AFullDiskLosesLinesOnly) {
  TrainingLog full("/dev/full");
  full.step({.step = 1});
  full.step({.step = 2});
  EXPECT_THAT(full.failure().value_or(""), ::testing::HasSubstr("'/dev/full': cannot be written: No space left"));

  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  TrainingLog log(path);
  log.step({.step = 1});
  EXPECT_FALSE(log.failure());
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = limit;
  small.rlim_cur = std::filesystem::file_size(path) + 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  log.step({.step = 2});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, previous);
  EXPECT_THAT(log.failure().value_or(""), ::testing::HasSubstr("cannot be written: File too large"));
  log.step({.step = 3});
  const std::vector<json> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].at("step"), 3);
}

TEST(TrainingLog, IsCutBackToTheStepOfTheCheckpoint) {
  const std::string before =
      "{\"step\":1}\n{\"step\":2}\n{\"event\":\"eval\",\"step\":2}\na remark\n{\"event\":\"summary\",\"step\":2}\n";
  const std::string after = before + "{\"step\":3}\n{\"event\":\"eval\",\"step\":3}\n{\"step\":4,\"lo";
  const auto cut = [&](std::uint64_t step, bool repeats_evaluation) {
    const test::TemporaryFolder folder;
    const auto path = folder.file("log.jsonl", after);
    TrainingLog log(path);
    log.cut_back(step, repeats_evaluation, 0);
    log.step({.step = step + 1});
    std::string text = test::read_file(path);
    return text.substr(0, text.rfind("{\"step\":"));
  };
  const std::string first = "{\"step\":1}\n";
  EXPECT_EQ(cut(1, false), first + "a remark\n");
  EXPECT_EQ(cut(2, false), first + "{\"step\":2}\n{\"event\":\"eval\",\"step\":2}\na remark\n");
  EXPECT_EQ(cut(2, true), first + "{\"step\":2}\na remark\n");
  EXPECT_EQ(cut(9, false), first + "{\"step\":2}\n{\"event\":\"eval\",\"step\":2}\na remark\n{\"step\":3}\n" +
                               "{\"event\":\"eval\",\"step\":3}\n")
      << "a torn line does not stay";
}

TEST(TrainingLog, RemovesWhatAKillDuringAnEarlierCutHasLeft) {
  const test::TemporaryFolder folder;
  const auto path = folder.file("log.jsonl", "{\"step\":1}\n{\"step\":2}\n");
  // Linux has no process with a number above 4194304.
  const auto left = folder.file("log.jsonl.tmp-99999999", "{\"st");
  const auto others = std::vector{folder.file("other.jsonl.tmp-99999999", "of another log"),
                                  folder.file("log.jsonl.tmp-old", "of a user"),
                                  folder.file("log.jsonl.tmp-1", "of a process that is running")};
  TrainingLog(path).cut_back(1, false, 0);
  EXPECT_EQ(test::read_file(path), "{\"step\":1}\n");
  EXPECT_FALSE(std::filesystem::exists(left));
  for (const auto& other : others) EXPECT_TRUE(std::filesystem::exists(other)) << other;
}

TEST(TrainingLog, IsEmptiedForANewRun) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  for (int run = 0; run < 2; ++run) {
    TrainingLog log(path);
    log.clear();
    log.step({});
  }
  EXPECT_EQ(lines_of(path).size(), 1U);
}

// As by logrotate: with a new file, or with copytruncate.
TEST(TrainingLog, GoesOnWhenItsFileIsMovedOrEmptied) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  const auto moved = folder.path() / "log.jsonl.1";
  TrainingLog log(path);
  log.step({.step = 1});
  std::filesystem::rename(path, moved);
  log.step({.step = 2});
  log.step({.step = 3});
  EXPECT_EQ(lines_of(moved).size(), 1U);
  EXPECT_EQ(lines_of(path).size(), 2U);
  std::filesystem::resize_file(path, 0);
  log.step({.step = 4});
  ASSERT_EQ(lines_of(path).size(), 1U);
  EXPECT_EQ(lines_of(path)[0].at("step"), 4);
  EXPECT_FALSE(log.failure());
}

TEST(TrainingLog, BelongsToOneRun) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  const TrainingLog log(path);
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { TrainingLog{path}; }),
              ::testing::HasSubstr("--log-json '" + path.string() + "' is in use by another run"));
  EXPECT_NO_THROW({
    TrainingLog("/dev/null");
    TrainingLog("/dev/null");
  });
}

TEST(TrainingLog, NamesAFileThatCannotBeOpened) {
  const std::string message = test::message_of<ConfigurationError>([] { TrainingLog("/nowhere/log.jsonl"); });
  EXPECT_THAT(message, ::testing::HasSubstr("'/nowhere/log.jsonl': cannot be opened: No such file"));
}

TEST(SteadyMedian, LeavesOutTheFirstFewSteps) {
  const auto median = [](const std::vector<double>& values) {
    SteadyMedian median;
    for (const double each : values) median.add(each);
    return median.value();
  };
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({1, 1, 1, 7}), 7);
  EXPECT_EQ(median({1, 1, 1, 9, 5, 7, 8}), 7.5);
}

TEST(SteadyMedian, OfALongRunNeedsNoMoreMemory) {
  SteadyMedian median;
  constexpr int kSteps = 1 << 20;
  for (int step = 0; step < kSteps; ++step) {
    median.add(step);
    ASSERT_LT(median.kept(), SteadyMedian::kMostValues);
  }
  EXPECT_NEAR(median.value(), kSteps / 2, 1024) << "values of the whole run are kept";
}

}  // namespace
}  // namespace strata::host
