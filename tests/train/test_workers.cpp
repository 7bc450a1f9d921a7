// Checkpoints of workers that exchange compressed gradients: resumed with the same workers, with others, and without.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "build_paths.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct WorkerRecorder : RunRecorder {
  using RunRecorder::RunRecorder;
  void started(const RunStart& start) override { remarks = start.remarks; }

  std::vector<std::string> remarks;
};

class Workers : public ::testing::Test {
 protected:
  /// Trains up to `stop_after`.
  WorkerRecorder run(const std::string& strategies, std::uint64_t stop_after, const fs::path& resume = {},
                     const std::string& micro_batch = "batch.micro=2") {
    RunSetup setup =
        prepare(parse_configuration(configuration_, "small.toml",
                                    {"strategy=[" + strategies + "]", "device.plugin=reference", micro_batch}),
                registry_);
    const DataSource source = setup.open_data();
    WorkerRecorder recorder(stop_after);
    const CheckpointSettings checkpoints{folder_.path() / std::to_string(runs_++), 0, 0};
    Trainer(setup, source, checkpoints, {resume}, recorder).run();
    return recorder;
  }

  std::string refusal(const std::string& strategies, const fs::path& resume) {
    try {
      (void)run(strategies, 8, resume, "batch.micro=1");
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  /// Expects that a run goes on, after `from` steps, like `whole`.
  static void expect_near(const WorkerRecorder& resumed, const WorkerRecorder& whole, std::size_t from) {
    ASSERT_EQ(resumed.losses.size() + from, whole.losses.size());
    for (std::size_t i = 0; i < resumed.losses.size(); ++i) {
      EXPECT_NEAR(resumed.losses[i], whole.losses[from + i], 1e-4) << "step " << from + i;
    }
  }

  test::TemporaryFolder folder_;
  std::string configuration_ = test::small_configuration(folder_);
  PluginRegistry registry_{{plugin_folder()}};
  int runs_ = 0;
};

const std::string kPowerSgd = R"({plugin="compress", size=2, rank=2})";
const std::string kTopK = R"({plugin="compress", size=2, method="topk", density=0.05})";

TEST_F(Workers, GoOnAsIfNeverStopped) {
  for (const std::string& each : {kPowerSgd, kTopK}) {
    const WorkerRecorder whole = run(each, 8);
    for (const std::uint64_t stop : {1, 4}) {
      const WorkerRecorder first = run(each, stop);
      const WorkerRecorder second = run(each, 8, first.last_checkpoint());
      const std::vector<double> rest(whole.losses.begin() + static_cast<std::ptrdiff_t>(stop), whole.losses.end());
      EXPECT_EQ(second.losses, rest) << each << " stopped after " << stop;
      EXPECT_THAT(second.remarks, ::testing::IsEmpty());
    }
  }
}

TEST_F(Workers, GoOnInAnotherLayout) {
  const WorkerRecorder whole = run(kPowerSgd, 8);
  const WorkerRecorder first = run(kPowerSgd, 4);
  expect_near(run(kPowerSgd + R"(, {plugin="zero", size=2, stage=3})", 8, first.last_checkpoint(), "batch.micro=1"),
              whole, 4);
  expect_near(run(R"({plugin="tensor", size=2}, )" + kPowerSgd, 8, first.last_checkpoint()), whole, 4);
}

/// PowerSGD depends on the sum of the workers' gradients and errors only, so their number changes rounding alone.
TEST_F(Workers, GoOnInAnotherNumberWithTheSumOfTheirErrors) {
  const std::string four = R"({plugin="compress", size=4, rank=2})";
  const WorkerRecorder whole = run(kPowerSgd, 8);
  const fs::path of_two = run(kPowerSgd, 4).last_checkpoint();
  const fs::path of_four = run(four, 4, {}, "batch.micro=1").last_checkpoint();
  expect_near(run(four, 8, of_two, "batch.micro=1"), whole, 4);
  expect_near(run(kPowerSgd, 8, of_four), whole, 4);
}

TEST_F(Workers, BeginTheirBasisAnewWithAnotherRank) {
  const fs::path path = run(kPowerSgd, 4).last_checkpoint();
  EXPECT_EQ(run(R"({plugin="compress", size=2, rank=1})", 8, path).losses.size(), 4U);
  EXPECT_EQ(run(kTopK, 8, path).losses.size(), 4U);
}

TEST_F(Workers, SayWhatARunWithoutThemDrops) {
  const WorkerRecorder without = run("", 8, run(kPowerSgd, 4).last_checkpoint());
  ASSERT_EQ(without.remarks.size(), 1U);
  EXPECT_THAT(without.remarks.front(), HasSubstr("which this run drops: "));
  EXPECT_THAT(without.remarks.front(), HasSubstr("'optimizer/pending_gradient/"));
}

TEST_F(Workers, OfReplicasKeepTheirNumbers) {
  const std::string replicas = R"({plugin="localsgd", size=2, steps=4}, )";
  const fs::path path = run(replicas + kPowerSgd, 4, {}, "batch.micro=1").last_checkpoint();
  EXPECT_EQ(refusal(replicas + kPowerSgd, path), "");
  EXPECT_THAT(refusal(R"({plugin="compress", size=4, rank=2})", path),
              HasSubstr("is of 2 replicas with 2 workers each; found 1 replicas with 4 workers each"));
}

/// The errors of a replica stay with it, whichever of the two axes is the outer one.
TEST_F(Workers, OfReplicasAreRestoredInAnotherOrderOfAxes) {
  const std::string replicas = R"({plugin="localsgd", size=2, steps=4})";
  const CheckpointReader reader(run(replicas + ", " + kPowerSgd, 3, {}, "batch.micro=1").last_checkpoint());
  const RunSetup setup = prepare(parse_configuration(configuration_, "small.toml",
                                                     {"strategy=[" + kPowerSgd + ", " + replicas + "]",
                                                      "device.plugin=reference", "batch.micro=1"}),
                                 registry_);
  const Compiled compiled = setup.compile(setup.request(GraphMode::training, setup.sizes(setup.open_data().sizes())));
  const std::string parameter = "wte.weight";
  std::vector<std::vector<float>> known;
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) {
    const Program& program = compiled.program(rank);
    const auto stored = std::find_if(program.parameters.begin(), program.parameters.end(),
                                     [&](const StoredParameter& each) { return each.name == parameter; });
    const BufferId error = stored->states.at("pending_gradient");
    std::vector<float> restored(256 * 16);
    reader.restore(program, rank, [&](const BufferSlice& slice, const void* values) {
      if (slice.buffer == error) std::memcpy(restored.data(), values, restored.size() * sizeof(float));
    });
    const Coordinates at = compiled.mesh.coordinates(rank);
    const std::int64_t index = 2 * at.at("replica") + at.at("compressed");
    std::vector<float> expected(restored.size());
    reader.read("optimizer/pending_gradient/" + parameter,
                TensorPart::block({{4, {{0, index, 1}}}, {256, {{0, 0, 256}}}, {16, {{0, 0, 16}}}}), DType::f32,
                expected.data());
    EXPECT_EQ(restored, expected) << "rank " << rank;
    EXPECT_THAT(known, ::testing::Not(::testing::Contains(expected))) << "two workers have the same errors";
    known.push_back(expected);
  }
}

TEST_F(Workers, KeepTheirErrorsInOneTensorAndTheBasisOnce) {
  const CheckpointReader reader(run(kPowerSgd, 4).last_checkpoint());
  const auto& tensors = reader.manifest().tensors;
  EXPECT_EQ(tensors.at("wte.weight").shape, (Shape{256, 16}));
  EXPECT_EQ(tensors.at("optimizer/pending_gradient/wte.weight").shape, (Shape{2, 256, 16}));
  EXPECT_EQ(tensors.at("optimizer/power_sgd_basis/wte.weight").shape, (Shape{2, 256}));
}

}  // namespace
}  // namespace strata::host
