// Evaluations of the moving average of the weights, and checkpoints with it.

#include <gmock/gmock.h>

#include "build_paths.hpp"
#include "compiler/parameters/update.hpp"
#include "generate/text_generation.hpp"
#include "sanitized.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Keeps the losses of evaluations.
struct EvaluationRecorder : RunRecorder {
  using RunRecorder::RunRecorder;
  void evaluation(const EvaluationRecord& record) override {
    losses.push_back(record.loss);
    of_average = record.of_average;
  }

  std::vector<double> losses;
  bool of_average = false;
};

class WeightAverage : public ::testing::Test {
 protected:
  struct Options {
    std::string strategies = "";
    /// Of [optimizer.average].
    std::string average = "";
    std::string lr = "1e-2";
    /// 0: the run ends by itself.
    std::uint64_t stop_after = 0;
    fs::path resume = {};
  };

  EvaluationRecorder run(const Options& options) {
    const RunSetup setup =
        prepare(parse_configuration(
                    configuration_, "small.toml",
                    {"strategy=[" + options.strategies + "]", "device.plugin=reference", "run.eval_every=2",
                     "run.eval_batches=2", "optimizer.average={" + options.average + "}", "optimizer.lr=" + options.lr,
                     "batch.global=12", "optimizer.schedule={kind=\"constant\"}"}),
                registry_);
    const DataSource source = setup.open_data();
    EvaluationRecorder recorder(options.stop_after);
    const CheckpointSettings checkpoints{folder_.path() / std::to_string(runs_++), 0, 0};
    Trainer trainer(setup, source, checkpoints, {options.resume}, recorder);
    const TrainingSummary summary = trainer.run();
    EXPECT_EQ(summary.planned_peak_bytes, summary.arena_peak_bytes) << options.strategies;
    return recorder;
  }

  /// The text that the model of a checkpoint writes.
  std::vector<std::int32_t> write(const fs::path& checkpoint, RestoredWeights weights) {
    const CheckpointReader reader(checkpoint);
    const RunSetup setup = prepare(one_rank_configuration(reader, {}, registry_), registry_);
    std::vector<std::int32_t> tokens;
    generate(setup, reader,
             {.prompts = {{'l'}}, .tokens = 6, .sampling = {.temperature = 1, .seed = 5}, .weights = weights},
             {.on_token = [&](std::size_t /*prompt*/, std::int32_t token) {
               tokens.push_back(token);
               return true;
             }});
    return tokens;
  }

  test::TemporaryFolder folder_;
  std::string configuration_ = test::small_configuration(folder_);
  PluginRegistry registry_{{plugin_folder()}};
  int runs_ = 0;
};

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, const std::string& strategies,
                 double tolerance = 1e-5) {
  ASSERT_EQ(found.size(), expected.size()) << strategies;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance) << strategies << ", evaluation " << i;
  }
}

/// Every way in which a rank can hold values and averages. Sanitized, three that differ most.
const std::vector<std::string> kStacks = [] {
  const std::vector<std::string> all = {
      R"({plugin="ddp", size=2})",
      R"({plugin="zero", size=2, stage=1})",
      R"({plugin="zero", size=3, stage=2})",
      R"({plugin="zero", size=2, stage=3})",
      R"({plugin="zero", size=2, stage=1, offload_optimizer="host"})",
      R"({plugin="zero", size=2, stage=3, offload_optimizer="file", offload_param="host"})",
      R"({plugin="zero", size=1, stage=3, offload_optimizer="host", offload_param="host"})",
      R"({plugin="dataparallel", size=2})",
      R"({plugin="zero", size=2, stage=3}, {plugin="tensor", size=2})",
      R"({plugin="zero", size=2, stage=1}, {plugin="pipeline", size=2})",
      R"({plugin="ddp", size=2}, {plugin="context", size=2})"};
  return testing::kSanitized ? std::vector{all[1], all[5], all[8]} : all;
}();

TEST_F(WeightAverage, IsWhatAnEvaluationReads) {
  // An average that moves by 1e-12 of the way stays at the initial weights, which a rate near 0 keeps too.
  const std::vector<double> untrained = run({.lr = "1e-12"}).losses;
  for (const std::string& stack : kStacks) {
    expect_near(run({.strategies = stack, .average = "decay=0.999999999999"}).losses, untrained, stack);
  }
  // One that moves all the way is the trained weights.
  const std::vector<double> trained = run({}).losses;
  EXPECT_GT(untrained.back() - trained.back(), 0.05);
  for (const std::string& stack : kStacks) {
    expect_near(run({.strategies = stack, .average = "decay=1e-30"}).losses, trained, stack);
  }
}

TEST_F(WeightAverage, IsThatOfOneRankOnEveryStack) {
  const EvaluationRecorder alone = run({.average = "decay=0.6"});
  EXPECT_TRUE(alone.of_average);
  EXPECT_GT(alone.losses.back() - run({}).losses.back(), 0.02);  // it lags behind the trained weights
  for (const std::string& stack : kStacks) {
    expect_near(run({.strategies = stack, .average = "decay=0.6"}).losses, alone.losses, stack);
  }
}

TEST_F(WeightAverage, OfShortWeightsIsRoundedForEvaluation) {
  const std::string precision = R"({plugin="precision", compute="bf16"})";
  const EvaluationRecorder alone = run({.strategies = precision, .average = "decay=0.6"});
  for (const char* zero : {R"({plugin="zero", size=2, stage=1},)", R"({plugin="zero", size=2, stage=3},)"}) {
    const std::string stack = zero + precision;
    expect_near(run({.strategies = stack, .average = "decay=0.6"}).losses, alone.losses, stack, 5e-3);
  }
}

TEST_F(WeightAverage, CanBeKeptWithoutBeingEvaluated) {
  const EvaluationRecorder kept = run({.average = "decay=0.6, evaluate=false"});
  EXPECT_FALSE(kept.of_average);
  EXPECT_EQ(kept.losses, run({}).losses);
}

TEST_F(WeightAverage, SurvivesACheckpointOnAnotherStack) {
  const std::vector<double> whole = run({.average = "decay=0.6"}).losses;
  for (const std::string& stack : kStacks) {
    const EvaluationRecorder first = run({.strategies = stack, .average = "decay=0.6", .stop_after = 4});
    const EvaluationRecorder second = run({.average = "decay=0.6", .resume = first.last_checkpoint()});
    // A run that stops leaves the evaluation after its last step to the next one.
    expect_near(second.losses, {whole.begin() + 1, whole.end()}, stack);
    const EvaluationRecorder back =
        run({.strategies = stack, .average = "decay=0.6", .resume = first.last_checkpoint()});
    expect_near(back.losses, {whole.begin() + 1, whole.end()}, stack);
  }
}

TEST_F(WeightAverage, BeginsAsTheWeightsOfACheckpointWithoutOne) {
  const EvaluationRecorder first = run({.stop_after = 4});
  // It begins as the weights of step 4, and stays there.
  const EvaluationRecorder second = run({.average = "decay=0.999999999999", .resume = first.last_checkpoint()});
  const EvaluationRecorder trained = run({.resume = first.last_checkpoint()});
  ASSERT_GT(second.losses.size(), 1U);
  for (const double loss : second.losses) EXPECT_NEAR(loss, trained.losses.front(), 1e-5);
}

TEST_F(WeightAverage, OfReplicasIsEachOnesOwn) {
  const std::string two = R"({plugin="localsgd", size=2, steps=3})";
  const EvaluationRecorder whole = run({.strategies = two, .average = "decay=0.6"});
  const EvaluationRecorder first = run({.strategies = two, .average = "decay=0.6", .stop_after = 6});
  const EvaluationRecorder second = run({.strategies = two, .average = "decay=0.6", .resume = first.last_checkpoint()});
  EXPECT_EQ(second.losses, (std::vector<double>{whole.losses.begin() + 2, whole.losses.end()}));
  // The replicas agree after step 6, and their averages do not. Each new replica takes the one of a stored replica.
  EXPECT_EQ(run({.average = "decay=0.6", .resume = first.last_checkpoint()}).losses.size(), 2U);
}

TEST_F(WeightAverage, IsWhatGenerationCanUse) {
  const fs::path still =
      run({.strategies = R"({plugin="zero", size=2, stage=3})", .average = "decay=0.999999999999", .lr = "3e-2"})
          .last_checkpoint();
  const fs::path untrained = run({.lr = "1e-12"}).last_checkpoint();
  EXPECT_EQ(write(still, RestoredWeights::average), write(untrained, RestoredWeights::trained));
  EXPECT_NE(write(still, RestoredWeights::trained), write(untrained, RestoredWeights::trained));
  try {
    (void)write(untrained, RestoredWeights::average);
    FAIL() << "accepted a checkpoint without an average";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no moving average of the weights; accepted: one of a run with"));
  }
}

}  // namespace
}  // namespace strata::host
