// Checkpoints of replicas that train apart: resumed with the same replicas, with others, and without.

#include <gmock/gmock.h>

#include "build_paths.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Replicas : public ::testing::Test {
 protected:
  /// Trains up to `stop_after`. \return the losses and the last checkpoint.
  RunRecorder run(const std::string& strategies, std::uint64_t stop_after, const fs::path& resume = {},
                  const std::string& micro_batch = "batch.micro=2") {
    RunSetup setup =
        prepare(parse_configuration(configuration_, "small.toml",
                                    {"strategy=[" + strategies + "]", "device.plugin=reference", micro_batch}),
                registry_);
    const DataSource source = setup.open_data();
    RunRecorder recorder(stop_after);
    const CheckpointSettings checkpoints{folder_.path() / std::to_string(runs_++), 0, 0};
    Trainer trainer(setup, source, checkpoints, {resume}, recorder);
    trainer.run();
    return recorder;
  }

  std::string refusal(const std::string& strategies, const fs::path& resume) {
    try {
      (void)run(strategies, 8, resume);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  test::TemporaryFolder folder_;
  std::string configuration_ = test::small_configuration(folder_);
  PluginRegistry registry_{{plugin_folder()}};
  int runs_ = 0;
};

const std::string kTwo = R"({plugin="localsgd", size=2, steps=3})";
const std::string kStreaming = R"({plugin="localsgd", size=2, steps=4, fragments=2, overlap=true})";

std::vector<double> tail(const std::vector<double>& losses, std::size_t from) {
  return {losses.begin() + static_cast<std::ptrdiff_t>(from), losses.end()};
}

TEST_F(Replicas, GoOnAsIfNeverStopped) {
  for (const std::string& each : {kTwo, kStreaming}) {
    const RunRecorder whole = run(each, 8);
    for (const std::uint64_t stop : {1, 2, 3, 5}) {
      const RunRecorder first = run(each, stop);
      const RunRecorder second = run(each, 8, first.last_checkpoint());
      EXPECT_EQ(second.losses, tail(whole.losses, stop)) << each << " stopped after " << stop;
    }
  }
}

TEST_F(Replicas, GoOnInAnotherLayout) {
  const RunRecorder whole = run(kTwo, 8);
  const RunRecorder first = run(kTwo, 4);
  // The same samples belong to a replica in micro-batches of half the size.
  const RunRecorder second =
      run(kTwo + R"(, {plugin="zero", size=2, stage=3})", 8, first.last_checkpoint(), "batch.micro=1");
  const RunRecorder third = run(R"({plugin="tensor", size=2}, )" + kTwo, 8, first.last_checkpoint());
  for (std::size_t i = 0; i < second.losses.size(); ++i) {
    EXPECT_NEAR(second.losses[i], whole.losses[4 + i], 1e-4);
    EXPECT_NEAR(third.losses[i], whole.losses[4 + i], 1e-4);
  }
}

TEST_F(Replicas, MustAgreeToGoOnInAnotherNumber) {
  const std::string four = R"({plugin="localsgd", size=4, steps=3})";
  const fs::path apart = run(kTwo, 4).last_checkpoint();
  EXPECT_THAT(refusal(four, apart), HasSubstr("its 2 replicas differ in "));
  EXPECT_THAT(refusal(test::ddp(2).substr(10, test::ddp(2).size() - 11), apart),
              HasSubstr("resume with 2 replicas, or from a checkpoint of a step at which they agree"));
  const fs::path agreed = run(kTwo, 3).last_checkpoint();
  EXPECT_EQ(run(four, 8, agreed).losses.size(), 5U);
  EXPECT_EQ(run("", 8, agreed).losses.size(), 5U);
}

/// The agreed values begin as the parameters of the checkpoint, and the momentum as zero.
TEST_F(Replicas, BeginFromARunWithoutReplicas) {
  const fs::path before = run("", 3).last_checkpoint();
  const RunRecorder replicas = run(kTwo, 8, before);
  const RunRecorder single = run("", 8, before);
  // Both continue from the same values on the same data.
  EXPECT_NEAR(replicas.losses.front(), single.losses.front(), 1e-5);
}

TEST_F(Replicas, KeepTheirTensorsInOneAndWhatTheyShareOnce) {
  const CheckpointReader reader(run(kTwo, 4).last_checkpoint());
  const auto& tensors = reader.manifest().tensors;
  EXPECT_EQ(tensors.at("wte.weight").shape, (Shape{2, 256, 16}));
  EXPECT_EQ(tensors.at("optimizer/first_moment/wte.weight").shape, (Shape{2, 256, 16}));
  EXPECT_EQ(tensors.at("optimizer/agreed_replica/wte.weight").shape, (Shape{256, 16}));
  EXPECT_EQ(tensors.at("optimizer/momentum_replica/wte.weight").shape, (Shape{256, 16}));
}

}  // namespace
}  // namespace strata::host
