// Whole runs of the trainer on the cuda device. Runs with graphs and without graphs give equal bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"
#include "train/small_run.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::HasSubstr;

std::vector<double> evaluation_losses(const RunRecorder& run) {
  std::vector<double> losses;
  for (const EvaluationRecord& each : run.evaluations) losses.push_back(each.loss);
  return losses;
}

class CudaTraining : public ::testing::Test {
 protected:
  /// Five steps of a small model with dropout, four micro-batches per step and clipping.
  RunRecorder run(const std::string& strategies, bool graph) {
    const RunSetup setup = prepare(
        parse_configuration(test::small_configuration(folder_), "small.toml",
                            {"run.steps=5", "run.eval_every=2", "run.eval_batches=1", "model.layers=1",
                             "batch.global=4", "batch.micro=1", "strategy=[" + strategies + "]",
                             "device={plugin=\"cuda_emulated\", graph=" + std::string(graph ? "true}" : "false}")}),
        registry_);
    const DataSource source = setup.open_data();
    RunRecorder result;
    const CheckpointSettings checkpoints{folder_.path() / ("checkpoints" + std::to_string(runs_++)), 0, 0};
    Trainer(setup, source, checkpoints, {}, result).run();
    return result;
  }

  static void expect_same_bits(const RunRecorder& found, const RunRecorder& expected, int ranks) {
    ASSERT_EQ(found.steps.size(), expected.steps.size());
    for (std::size_t i = 0; i < expected.steps.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(expected.steps[i].step));
      EXPECT_EQ(found.steps[i].skipped, expected.steps[i].skipped);
      EXPECT_EQ(found.steps[i].loss_scale, expected.steps[i].loss_scale);
      EXPECT_EQ(found.steps[i].loss, expected.steps[i].loss);
      if (!expected.steps[i].skipped) {
        EXPECT_EQ(found.steps[i].gradient_norm, expected.steps[i].gradient_norm);
      }
    }
    EXPECT_EQ(evaluation_losses(found), evaluation_losses(expected));
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string file = "rank-0000" + std::to_string(rank) + ".safetensors";
      EXPECT_TRUE(test::read_file(found.last_checkpoint() / file) == test::read_file(expected.last_checkpoint() / file))
          << file;
    }
  }

  TemporaryFolder folder_;
  PluginRegistry registry_{{plugin_folder()}};
  int runs_ = 0;
};

TEST_F(CudaTraining, OneRankIsOneGraphWithTheSameBits) {
  if (testing::kSanitized) GTEST_SKIP() << "reads and writes as two ranks do";
  const RunRecorder graphs = run("", true);
  const RunRecorder eager = run("", false);
  expect_same_bits(graphs, eager, 1);
  ASSERT_EQ(graphs.uses.size(), 1U);
  EXPECT_EQ(graphs.uses[0].refusal, std::nullopt);
  EXPECT_EQ(graphs.uses[0].graphs, 1U);
  EXPECT_EQ(graphs.uses[0].captured, graphs.uses[0].instructions);
  ASSERT_EQ(eager.uses.size(), 1U);
  EXPECT_THAT(eager.uses[0].refusal, ::testing::Optional(HasSubstr("'graph' is false")));
  EXPECT_EQ(eager.uses[0].graphs, 0U);
}

/// A scale of 2^26 over 32 tokens overflows fp16 for any gradient. After enough halvings it does not.
constexpr const char* kOverflowing = "{plugin=\"precision\", compute=\"fp16\", initial_scale=67108864.0}";

TEST_F(CudaTraining, StepsThatAreSkippedAreSkippedInGraphsToo) {
  if (testing::kSanitized) GTEST_SKIP() << "reads and writes as two ranks do";
  const RunRecorder graphs = run(kOverflowing, true);
  EXPECT_TRUE(graphs.steps.at(2).skipped) << "launched as a graph";
  expect_same_bits(graphs, run(kOverflowing, false), 1);
}

TEST_F(CudaTraining, GraphsLieBetweenTheCommunicationsOfTheRanks) {
  const std::string strategies = "{plugin=\"zero\", size=2}, {plugin=\"precision\", compute=\"fp16\"}";
  const RunRecorder graphs = run(strategies, true);
  EXPECT_FALSE(graphs.steps.back().skipped);
  expect_same_bits(graphs, run(strategies, false), 2);
  ASSERT_EQ(graphs.uses.size(), 1U);
  EXPECT_GT(graphs.uses[0].graphs, 1U);
  EXPECT_LT(graphs.uses[0].captured, graphs.uses[0].instructions);
}

}  // namespace
}  // namespace strata::host
