/// \file
/// Runs whose data cannot be read any more: they end with a checkpoint of the last complete step.

#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "build_paths.hpp"
#include "command_runner.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kTruncatedAfter = 5;

class Saboteur : public RunRecorder {
 public:
  explicit Saboteur(fs::path victim) : victim_(std::move(victim)) {}
  void step(const StepRecord& record) override {
    RunRecorder::step(record);
    if (record.step == kTruncatedAfter && !victim_.empty()) fs::resize_file(victim_, 0);
  }

 private:
  fs::path victim_;
};

/// A rank of another world, as a process of its own has it.
class ProcessOfOneRank final : public World {
 public:
  ProcessOfOneRank(std::shared_ptr<World> whole, int rank) : whole_(std::move(whole)), rank_(rank) {}
  int rank_count() const override { return whole_->rank_count(); }
  std::vector<int> local_ranks() const override { return {rank_}; }
  CommunicatorLimits limits() const override { return whole_->limits(); }
  std::unique_ptr<Communicator> connect(int rank, Device& device) override { return whole_->connect(rank, device); }

 private:
  std::shared_ptr<World> whole_;
  int rank_;
};

class DataFailureTest : public ::testing::Test {
 protected:
  RunSetup setup(const fs::path& data, const std::vector<std::string>& more = {}) {
    std::vector<std::string> overrides{"run.steps=400", "data.path=" + data.string(), test::ddp(2)};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return prepare(parse_configuration(configuration_, "small.toml", overrides), registry_);
  }
  [[nodiscard]] CheckpointSettings checkpoints(const std::string& folder) const {
    return {folder_.path() / folder, 0, 0};
  }
  void write_text(const fs::path& path) const { std::ofstream(path, std::ios::binary) << test::small_text(); }

  test::TemporaryFolder folder_;
  std::string configuration_ = test::small_configuration(folder_);
  fs::path text_ = folder_.path() / "text.txt";
  PluginRegistry registry_{{plugin_folder()}};
};

TEST_F(DataFailureTest, ARunThatLosesItsDataEndsWithACheckpointToGoOnFrom) {
  const RunSetup whole_setup = setup(text_, {"run.steps=20"});
  const DataSource whole_source = whole_setup.open_data();
  Saboteur whole({});
  Trainer(whole_setup, whole_source, checkpoints("whole"), {}, whole).run();

  const RunSetup broken_setup = setup(text_, {"run.steps=20"});
  const DataSource broken_source = broken_setup.open_data();
  Saboteur broken(text_);
  Trainer trainer(broken_setup, broken_source, checkpoints("parts"), {}, broken);
  const std::string message = message_of<RuntimeError>([&] { trainer.run(); });
  ASSERT_EQ(broken.checkpoints.size(), 1U);
  const CheckpointReader checkpoint(broken.checkpoints.front().path);
  const std::uint64_t step = checkpoint.run().step;
  EXPECT_GE(step, kTruncatedAfter);
  EXPECT_LT(step, 20U) << "the thread reads no more than a few steps ahead";
  EXPECT_EQ(broken.losses.size(), step);
  EXPECT_THAT(message, AllOf(HasSubstr("the data of step " + std::to_string(step + 1) +
                                       " cannot be read: dataset 'text': hook 'read': '" + text_.string() +
                                       "': found the end of the file at byte "),
                             HasSubstr("; expected "), HasSubstr("checkpoint of step " + std::to_string(step))));

  write_text(text_);
  const RunSetup rest_setup = setup(text_, {"run.steps=20"});
  const DataSource rest_source = rest_setup.open_data();
  Saboteur rest({});
  Trainer(rest_setup, rest_source, checkpoints("parts"), {checkpoint.directory()}, rest).run();
  std::vector<double> joined = broken.losses;
  joined.insert(joined.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(joined, whole.losses);
}

TEST_F(DataFailureTest, AllProcessesEndIfOneOfThemCannotRead) {
  const fs::path other = folder_.path() / "other.txt";
  write_text(other);
  const std::shared_ptr<World> whole = setup(text_).make_world();
  // The first rank reports. The other one's file is emptied.
  const std::vector<RunSetup> setups = [&] {
    std::vector<RunSetup> made;
    made.push_back(setup(text_));
    made.push_back(setup(other));
    return made;
  }();
  Saboteur first(other);
  Saboteur second({});
  std::vector<std::string> messages(2);
  const auto run = [&](int rank, Saboteur& observer) {
    const RunSetup& own = setups[static_cast<std::size_t>(rank)];
    const DataSource source = own.open_data();
    Trainer trainer(own, source, checkpoints("common"), {}, observer, std::make_unique<ProcessOfOneRank>(whole, rank));
    messages[static_cast<std::size_t>(rank)] = message_of<RuntimeError>([&] { trainer.run(); });
  };
  std::thread process([&] { run(1, second); });
  run(0, first);
  process.join();
  EXPECT_THAT(messages[0], HasSubstr("cannot be read: another process reports the reason"));
  EXPECT_THAT(messages[1], HasSubstr("cannot be read: dataset 'text': hook 'read': '" + other.string() +
                                     "': found the end of the file at byte "));
  ASSERT_EQ(first.checkpoints.size(), 1U);
  const CheckpointReader checkpoint(first.checkpoints.front().path);
  EXPECT_EQ(checkpoint.run().step, first.losses.size());
  EXPECT_THAT(messages[0], HasSubstr("checkpoint of step " + std::to_string(checkpoint.run().step)));
}

TEST_F(DataFailureTest, DataThatFailsBeforeTheFirstStepLeavesNoCheckpoint) {
  const RunSetup broken = setup(text_);
  const DataSource source = broken.open_data();
  fs::resize_file(text_, 10);
  Saboteur observer({});
  Trainer trainer(broken, source, checkpoints("none"), {}, observer);
  EXPECT_THAT(message_of<RuntimeError>([&] { trainer.run(); }),
              HasSubstr("the data of step 1 cannot be read: dataset 'text': hook 'read': '"));
  EXPECT_TRUE(observer.checkpoints.empty());
}

TEST_F(DataFailureTest, AnEvaluationThatCannotReadEndsTheRunLikewise) {
  // The windows of validation are at the end of the file.
  const RunSetup broken = setup(text_, {"run.eval_every=3", "run.steps=6"});
  const DataSource source = broken.open_data();
  fs::resize_file(text_, fs::file_size(text_) - 30);
  Saboteur observer({});
  Trainer trainer(broken, source, checkpoints("evaluated"), {}, observer);
  EXPECT_THAT(message_of<RuntimeError>([&] { trainer.run(); }),
              HasSubstr("the data of the evaluation after step 3 cannot be read: dataset 'text': hook 'read': '"));
  ASSERT_EQ(observer.checkpoints.size(), 1U);
  const CheckpointReader checkpoint(observer.checkpoints.front().path);
  EXPECT_EQ(checkpoint.run().step, 3U);

  write_text(text_);
  const RunSetup mended = setup(text_, {"run.eval_every=3", "run.steps=6"});
  const DataSource whole_source = mended.open_data();
  Saboteur whole({});
  Trainer(mended, whole_source, checkpoints("whole"), {}, whole).run();
  Saboteur rest({});
  Trainer(mended, whole_source, checkpoints("evaluated"), {checkpoint.directory()}, rest).run();
  EXPECT_EQ(rest.losses, (std::vector<double>{whole.losses.begin() + 3, whole.losses.end()}));
}

TEST_F(DataFailureTest, TheCommandSaysItInOneMessage) {
  const std::string log = (folder_.path() / "log").string();
  const std::string config = folder_.file("small.toml", configuration_).string();
  test::RunningCommand command({"train", config, "--set", test::ddp(2), "--steps", "1000000", "--log-json", log});
  while (test::read_file(log).find("\"step\":3,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fs::resize_file(text_, 0);
  const test::CommandResult result = command.wait();
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, HasSubstr("error: the data of step "));
  EXPECT_THAT(result.messages, HasSubstr("text.txt': found the end of the file at byte "));
  const CheckpointReader checkpoint(find_checkpoint(folder_.path() / "output"));
  EXPECT_THAT(result.messages, HasSubstr("checkpoint of step " + std::to_string(checkpoint.run().step)));
}

TEST_F(DataFailureTest, OtherDataNeedsPermission) {
  const auto train = [&](const std::string& bytes, const std::vector<std::string>& more, const fs::path& resume) {
    std::ofstream(text_, std::ios::binary) << bytes;
    std::vector<std::string> overrides{"run.steps=2"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const RunSetup own = setup(text_, overrides);
    const DataSource source = own.open_data();
    Saboteur observer({});
    Trainer(own, source, checkpoints("data"), {resume}, observer).run();
    return observer.last_checkpoint();
  };
  const std::string text = test::small_text();
  const fs::path checkpoint = train(text, {}, {});
  const CheckpointReader stored(checkpoint);
  const DataState data = stored.run().data.value();
  EXPECT_EQ(data.sizes, (DimSizes{{"seq", 8}, {"vocab", 256}}));

  EXPECT_NO_THROW(train(text, {"run.steps=3"}, checkpoint));
  const std::string message = message_of<ConfigurationError>([&] { train(text + "x", {"run.steps=3"}, checkpoint); });
  EXPECT_THAT(message, AllOf(HasSubstr("data: checkpoint '" + checkpoint.string() + "' was trained on data with the " +
                                       "fingerprint " + data.fingerprint + " (" + data.description + "); found "),
                             HasSubstr("data.allow_changed = true")));
  EXPECT_NO_THROW(train(text + "x", {"run.steps=3", "data.allow_changed=true"}, checkpoint));
}

}  // namespace
}  // namespace strata::host
