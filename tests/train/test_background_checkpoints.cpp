/// Whole runs on slow, stopped and full disks: what a run does while its checkpoints are written, or cannot be.

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <functional>

#include "build_paths.hpp"
#include "command_runner.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "test_disks.hpp"
#include "train/run_recorder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Watcher : public RunRecorder {
 public:
  void step(const StepRecord& record) override {
    RunRecorder::step(record);
    if (after_step) after_step(record.step);
  }
  void checkpoint(const CheckpointRecord& record) override {
    RunRecorder::checkpoint(record);
    steps_when_written.push_back(losses.size());
  }

  std::function<void(std::uint64_t)> after_step;
  /// Steps that were done when each checkpoint was complete.
  std::vector<std::size_t> steps_when_written;
};

class BackgroundCheckpoints : public ::testing::Test {
 protected:
  struct RunOptions {
    std::string folder = "run";
    CheckpointMode mode = CheckpointMode::background;
    std::int64_t every = 2;
    int keep = 0;
    std::string resume = {};
    std::vector<std::string> overrides = {};
  };

  TrainingSummary run(const RunOptions& options, Watcher& watcher, const Disk& disk = system_disk()) {
    std::vector<std::string> overrides{test::ddp(2)};
    overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
    const RunSetup setup = prepare(parse_configuration(configuration_, "small.toml", overrides), registry_);
    const DataSource source = setup.open_data();
    const CheckpointSettings settings{folder_.path() / options.folder, options.every, options.keep, options.mode,
                                      &disk};
    return Trainer(setup, source, settings, {options.resume}, watcher).run();
  }
  [[nodiscard]] std::vector<std::string> names(const std::string& folder = "run") const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path() / folder)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
  [[nodiscard]] std::string tensors(const std::string& folder, const std::string& checkpoint) const {
    std::string bytes;
    for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
      bytes += test::read_file(folder_.path() / folder / checkpoint / name);
    }
    return bytes;
  }

  test::TemporaryFolder folder_;
  std::string configuration_ = test::small_configuration(folder_);
  PluginRegistry registry_{{plugin_folder()}};
};

TEST_F(BackgroundCheckpoints, TrainingGoesOnWhileTheDiskStandsStill) {
  Watcher foreground;
  const TrainingSummary waited = run({.folder = "foreground", .mode = CheckpointMode::foreground}, foreground);

  test::StoppedDisk disk;
  Watcher background;
  background.after_step = [&](std::uint64_t step) {
    if (step == 2) disk.stop();
    if (step == 4) disk.open();
  };
  const TrainingSummary summary = run({}, background, disk);
  ASSERT_EQ(background.checkpoints.size(), 4U);
  EXPECT_EQ(foreground.steps_when_written, (std::vector<std::size_t>{2, 4, 6, 8}));
  EXPECT_GE(background.steps_when_written[0], 4U) << "training waited for the disk";
  EXPECT_EQ(background.losses, foreground.losses);
  // The copy is that of step 2, although the parameters changed before it was written.
  for (const char* checkpoint : {"step-00000002", "step-00000004", "step-00000008"}) {
    EXPECT_EQ(tensors("run", checkpoint), tensors("foreground", checkpoint));
    EXPECT_NE(tensors("run", checkpoint), "");
  }
  // A whole copy is planned. In the foreground there is at most the same.
  ASSERT_EQ(summary.planned_checkpoint_bytes.size(), 2U);
  EXPECT_GE(summary.planned_checkpoint_bytes[0] + summary.planned_checkpoint_bytes[1],
            static_cast<std::int64_t>(background.checkpoints[0].bytes));
  EXPECT_LE(waited.planned_checkpoint_bytes, summary.planned_checkpoint_bytes);
}

/// A fine-tuning, whose base no step changes.
TEST_F(BackgroundCheckpoints, FrozenParametersAreStoredOnce) {
  const std::vector<std::string> lora{"strategy=[{plugin=\"ddp\", size=2}, {plugin=\"lora\", rank=2}]"};
  const auto frozen = [&](const std::string& checkpoint, int rank) {
    return folder_.path() / checkpoint / ("frozen-0000" + std::to_string(rank) + ".safetensors");
  };
  Watcher whole;
  run({.keep = 2, .overrides = lora}, whole);
  Watcher rest;
  run({.folder = "rest",
       .mode = CheckpointMode::foreground,
       .resume = (folder_.path() / "run/step-00000006").string(),
       .overrides = lora},
      rest);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000006", "step-00000008"));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(fs::hard_link_count(frozen("run/step-00000008", rank)), 3U);
    EXPECT_TRUE(fs::equivalent(frozen("run/step-00000006", rank), frozen("rest/step-00000008", rank)));
  }
  EXPECT_EQ(tensors("rest", "step-00000008"), tensors("run", "step-00000008"));
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.end() - 2, whole.losses.end()));
  EXPECT_THAT(whole.warnings, IsEmpty());
  CheckpointReader(folder_.path() / "rest/step-00000008").verify();
}

// The timeout of communication is shorter than the writing, which the other rank waits for.
TEST_F(BackgroundCheckpoints, WritingIsNoCommunication) {
  const test::SlowDisk disk(std::chrono::milliseconds(400));
  Watcher watcher;
  run({.mode = CheckpointMode::foreground, .every = 8, .overrides = {"communicator={plugin=\"local\", timeout=1.0}"}},
      watcher, disk);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000008"));
  EXPECT_GT(watcher.checkpoints.at(0).write_seconds, 2) << "not slow enough for this test";
}

/// The output folder and the log may be on a slow disk, too. The first rank alone prepares them.
TEST_F(BackgroundCheckpoints, PreparingFilesIsNoCommunication) {
  class SlowWatcher : public Watcher {
   public:
    void prepare() override { std::this_thread::sleep_for(std::chrono::milliseconds(1300)); }
    void started(const RunStart& /*start*/) override { prepare(); }
  } watcher;
  run({.every = 8, .overrides = {"communicator={plugin=\"local\", timeout=1.0}"}}, watcher);
  EXPECT_EQ(watcher.losses.size(), 8U);
}

TEST_F(BackgroundCheckpoints, AResumedRunHasTheLossesOfAnUndisturbedOne) {
  Watcher whole;
  run({.folder = "whole"}, whole);
  Watcher rest;
  run({.resume = (folder_.path() / "whole/step-00000004").string()}, rest);
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 4, whole.losses.end()));
  EXPECT_EQ(tensors("run", "step-00000008"), tensors("whole", "step-00000008"));
}

TEST_F(BackgroundCheckpoints, AFullDiskIsAWarningAndTheLastGoodOneStays) {
  for (const CheckpointMode mode : {CheckpointMode::background, CheckpointMode::foreground}) {
    const std::string folder = "run" + std::to_string(static_cast<int>(mode));
    test::FullDisk disk;
    Watcher watcher;
    std::vector<std::string> names_after_failure;
    watcher.after_step = [&](std::uint64_t step) {
      // The checkpoint of step 2 is complete when the one of step 4 begins, and the failed one has ended at step 6.
      if (step == 4) disk.fill(!watcher.checkpoints.empty());
      if (step == 6) disk.fill(false);
      if (step == 6 && !watcher.warnings.empty()) names_after_failure = names(folder);
    };
    run({.folder = folder, .mode = mode, .keep = 1}, watcher, disk);
    ASSERT_EQ(watcher.losses.size(), 8U);
    if (mode == CheckpointMode::foreground) {
      ASSERT_EQ(watcher.warnings.size(), 1U);
      EXPECT_THAT(watcher.warnings[0], AllOf(HasSubstr("the checkpoint of step 4 could not be written: "),
                                             HasSubstr("No space left"), HasSubstr("training goes on")));
      EXPECT_THAT(names_after_failure, ElementsAre("latest", "step-00000002"));
    }
    EXPECT_THAT(names(folder), ElementsAre("latest", "step-00000008"));
  }
}

TEST_F(BackgroundCheckpoints, ARunWhoseLastCheckpointFailsFails) {
  test::FullDisk disk;
  Watcher watcher;
  watcher.after_step = [&](std::uint64_t step) { disk.fill(step == 8); };
  const std::string message =
      message_of<RuntimeError>([&] { run({.mode = CheckpointMode::foreground}, watcher, disk); });
  EXPECT_THAT(message, AllOf(HasSubstr("the checkpoint of step 8 could not be written: "), HasSubstr("No space left"),
                             HasSubstr("the newest complete checkpoint is "), HasSubstr("step-00000006")));
  EXPECT_THAT(watcher.warnings, IsEmpty());
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000002", "step-00000004", "step-00000006"));
}

TEST_F(BackgroundCheckpoints, ACopyWithoutMemoryIsRefusedWithTheWayOut) {
  const RunSetup setup = prepare(parse_configuration(configuration_, "small.toml", {}), registry_);
  const std::unique_ptr<Device> device = setup.make_device(0, 1);
  EXPECT_EQ(find_copy_fault({60, 70}, {40, 30}, *device, 100), std::nullopt);
  EXPECT_THAT(find_copy_fault({60, 70}, {40, 31}, *device, 100).value_or(""),
              AllOf(HasSubstr("rank 1 needs 70 bytes and 31 for the copy of a checkpoint, its device has 100"),
                    HasSubstr("checkpoint_mode = \"foreground\"")));
}

/// Limits the size of files that processes started meanwhile can write.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &previous_);
    rlimit limit = previous_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &previous_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit previous_{};
};

// A write beyond the limit of a file's size raises SIGXFSZ, which ends a process that does not expect it.
TEST_F(BackgroundCheckpoints, AFileThatIsTooLargeEndsNoTraining) {
  const std::string config = folder_.file("small.toml", configuration_).string();
  const std::string output = (folder_.path() / "output").string();
  std::optional<test::RunningCommand> command;
  {
    const FileLimit limit(20000);
    command.emplace(
        std::vector<std::string>{"train", config, "--set", test::ddp(2), "--set", "run.checkpoint_every=4"});
  }
  const test::CommandResult result = command->wait();
  EXPECT_EQ(result.exit_code, 1) << "signal " << result.signal;
  EXPECT_THAT(result.messages, AllOf(HasSubstr("step 8/8"), HasSubstr("warning: the checkpoint of step 4 could not"),
                                     HasSubstr("error: the checkpoint of step 8 could not be written: "),
                                     HasSubstr("File too large"), HasSubstr("there is no complete checkpoint")));
  EXPECT_THAT(names("output/checkpoints"), IsEmpty());
}

TEST_F(BackgroundCheckpoints, AFullDiskOfTheLogEndsNoTraining) {
  const std::string config = folder_.file("small.toml", configuration_).string();
  const test::CommandResult result = test::run_command({"train", config, "--log-json", "/dev/full"});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages,
              AllOf(HasSubstr("step 8/8"), HasSubstr("warning: --log-json '/dev/full'"), HasSubstr("No space left")));
}

}  // namespace
}  // namespace strata::host
