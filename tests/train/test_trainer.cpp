#include <gmock/gmock.h>

#include <cmath>

#include "build_paths.hpp"
#include "files/text_format.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"
#include "train/step_metrics.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The results of a run.
struct Result : RunRecorder {
  using RunRecorder::RunRecorder;
  TrainingSummary summary;
};

struct RunOptions {
  std::vector<std::string> overrides = {};
  fs::path resume = {};
  std::uint64_t stop_after = 0;
  /// If true, runs in f64 on the reference device.
  bool f64 = false;
  std::string folder = "checkpoints";
};

/// Largest relative difference of all parameters of two checkpoints, relative to each parameter's largest value.
double parameter_difference(const fs::path& a, const fs::path& b) {
  const CheckpointReader left(a);
  const CheckpointReader right(b);
  double largest = 0;
  for (const auto& [name, tensor] : left.manifest().tensors) {
    // The loss does not depend on a key bias, so its optimizer turns rounding noise into steps.
    if (name.starts_with("optimizer/") || name.find("attn.k.bias") != std::string::npos) continue;
    std::vector<IndexMap> dims;
    for (const std::int64_t size : tensor.shape) dims.push_back(IndexMap::whole(size));
    std::vector<double> x(static_cast<std::size_t>(element_count(tensor.shape)));
    std::vector<double> y(x.size());
    left.read(name, TensorPart::block(dims), DType::f64, x.data());
    right.read(name, TensorPart::block(dims), DType::f64, y.data());
    double scale = 0;
    double difference = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      scale = std::max(scale, std::abs(x[i]));
      difference = std::max(difference, std::abs(x[i] - y[i]));
    }
    largest = std::max(largest, difference / std::max(scale, 1e-3));
  }
  return largest;
}

/// Metrics as the log has them, as "name value".
std::vector<std::string> described(const std::vector<PlacedMetric>& placed, const std::vector<double>& sums) {
  std::vector<std::string> texts;
  for (const Metric& each : describe_metrics(placed, sums, 4)) {
    texts.push_back(each.name + format_line(" %.4f", each.value));
  }
  return texts;
}

TEST(StepMetrics, DescribeSumsOfAStep) {
  EXPECT_THAT(described({{"error", 0, 1, false}}, {6}), ::testing::ElementsAre("error 1.5000"));
  // ln 2 / ln 4 of four bins, of which two are used alike.
  EXPECT_THAT(described({{"load.0", 0, 4, true}, {"load.1", 4, 4, true}}, {5, 5, 0, 0, 1, 1, 1, 1}),
              ::testing::ElementsAre("load.0.largest 2.0000", "load.0.entropy 0.5000", "load.1.largest 1.0000",
                                     "load.1.entropy 1.0000", "load.largest 1.5000", "load.entropy 0.7500"));
  EXPECT_THAT(described({{"empty", 0, 2, true}}, {0, 0}),
              ::testing::ElementsAre(HasSubstr("empty.largest "), HasSubstr("nan")));
}

class TrainerTest : public ::testing::Test {
 protected:
  Result run(const RunOptions& options) {
    std::vector<std::string> overrides = options.overrides;
    if (options.f64) overrides.emplace_back("device.plugin=reference");
    RunSetup setup = prepare(parse_configuration(configuration_, "small.toml", overrides), registry_);
    if (options.f64) setup.float_type = DType::f64;
    const DataSource source = setup.open_data();
    Result result(options.stop_after);
    const CheckpointSettings checkpoints{folder_.path() / options.folder, setup.configuration.run.checkpoint_every, 0};
    Trainer trainer(setup, source, checkpoints, {options.resume}, result);
    result.summary = trainer.run();
    return result;
  }

  static void expect_equal_to(const Result& result, const Result& expected, double tolerance) {
    ASSERT_EQ(result.steps.size(), expected.steps.size());
    for (std::size_t i = 0; i < expected.steps.size(); ++i) {
      const StepRecord& want = expected.steps[i];
      EXPECT_NEAR(result.steps[i].loss, want.loss, tolerance * want.loss) << "step " << want.step;
      EXPECT_NEAR(result.steps[i].gradient_norm, want.gradient_norm, tolerance * want.gradient_norm);
    }
    EXPECT_LE(parameter_difference(result.checkpoints.back().path, expected.checkpoints.back().path), tolerance);
  }
  static std::string tensor_bytes(const fs::path& checkpoint) {
    return test::read_file(checkpoint / "rank-00000.safetensors");
  }

  test::TemporaryFolder folder_;
  std::string configuration_ = test::small_configuration(folder_);
  PluginRegistry registry_{{plugin_folder()}};
};

TEST_F(TrainerTest, LossFalls) {
  const Result result = run({.overrides = {"run.steps=40", test::ddp(2)}});
  EXPECT_NEAR(result.steps.front().loss, std::log(256.0), 0.3) << "a fresh model knows nothing";
  EXPECT_LT(result.steps.back().loss, 3.5);
}

TEST_F(TrainerTest, TwoRunsAreBitwiseEqual) {
  const Result first = run({.overrides = {test::ddp(2)}, .folder = "first"});
  const Result second = run({.overrides = {test::ddp(2)}, .folder = "second"});
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(tensor_bytes(first.checkpoints.back().path), tensor_bytes(second.checkpoints.back().path));
  const Result other = run({.overrides = {test::ddp(2), "run.seed=12"}, .folder = "other"});
  EXPECT_NE(first.losses, other.losses);
}

TEST_F(TrainerTest, AResumedRunIsBitwiseEqualToAnUninterruptedOne) {
  const Result whole = run({.overrides = {test::ddp(2)}, .folder = "whole"});
  for (const std::uint64_t stop : {1, 3, 7}) {
    const Result before = run({.overrides = {test::ddp(2)}, .stop_after = stop, .folder = "parts"});
    ASSERT_EQ(before.steps.size(), stop);
    const Result after =
        run({.overrides = {test::ddp(2)}, .resume = before.checkpoints.back().path, .folder = "parts"});
    std::vector<double> joined = before.losses;
    const std::vector<double> rest = after.losses;
    joined.insert(joined.end(), rest.begin(), rest.end());
    EXPECT_EQ(joined, whole.losses) << "stopped after step " << stop;
    EXPECT_EQ(tensor_bytes(after.checkpoints.back().path), tensor_bytes(whole.checkpoints.back().path));
  }
}

TEST_F(TrainerTest, RanksAndMicroBatchesDoNotChangeTheRun) {
  const Result alone = run({.f64 = true, .folder = "alone"});
  for (const int ranks : {2, 4}) {
    expect_equal_to(run({.overrides = {test::ddp(ranks)}, .f64 = true, .folder = std::to_string(ranks)}), alone, 1e-10);
  }
  for (const char* micro : {"1", "4", "8"}) {
    const Result result = run({.overrides = {std::string("batch.micro=") + micro}, .f64 = true, .folder = micro});
    expect_equal_to(result, alone, 1e-10);
  }
}

TEST_F(TrainerTest, ARunGoesOnWithAnotherNumberOfRanks) {
  const Result whole = run({.f64 = true, .folder = "whole"});
  const Result before = run({.overrides = {test::ddp(4)}, .stop_after = 3, .f64 = true, .folder = "parts"});
  Result after =
      run({.overrides = {test::ddp(2)}, .resume = before.checkpoints.back().path, .f64 = true, .folder = "parts"});
  after.steps.insert(after.steps.begin(), before.steps.begin(), before.steps.end());
  expect_equal_to(after, whole, 1e-10);
}

TEST_F(TrainerTest, EvaluationLeavesTheRunAlone) {
  const Result plain = run({.overrides = {test::ddp(2)}, .folder = "plain"});
  const Result evaluated = run({.overrides = {"run.eval_every=3", test::ddp(2)}, .folder = "evaluated"});
  EXPECT_EQ(plain.losses, evaluated.losses);
  EXPECT_EQ(tensor_bytes(plain.checkpoints.back().path), tensor_bytes(evaluated.checkpoints.back().path));
  ASSERT_EQ(evaluated.evaluations.size(), 3U) << "after steps 3 and 6 and at the end";
  EXPECT_EQ(evaluated.evaluations.back().step, 8U);
  // The whole validation split: every token but the first is a target once.
  const auto validation = static_cast<std::int64_t>(static_cast<double>(test::small_text().size()) * 0.1);
  EXPECT_EQ(evaluated.evaluations.back().tokens, validation - 1);
}

TEST_F(TrainerTest, EveryEvaluationHasTheSameBatches) {
  // A parameter that does not change has the same loss in each.
  const Result result = run({.overrides = {"run.eval_every=2", "run.eval_batches=2", "optimizer.lr=0",
                                           "optimizer.schedule.min_lr=0", test::ddp(2)}});
  ASSERT_EQ(result.evaluations.size(), 4U);
  for (const EvaluationRecord& each : result.evaluations) {
    EXPECT_EQ(each.tokens, 2 * 8 * 8) << "two batches of eight windows of eight tokens";
    EXPECT_EQ(each.loss, result.evaluations.front().loss);
  }
}

TEST_F(TrainerTest, EvaluationDoesNotDependOnRanks) {
  const Result alone = run({.overrides = {"run.eval_every=4"}, .f64 = true, .folder = "alone"});
  const Result four = run({.overrides = {"run.eval_every=4", test::ddp(4)}, .f64 = true, .folder = "four"});
  ASSERT_EQ(alone.evaluations.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(alone.evaluations[i].tokens, four.evaluations[i].tokens);
    EXPECT_NEAR(alone.evaluations[i].loss, four.evaluations[i].loss, 1e-10 * alone.evaluations[i].loss);
  }
}

TEST_F(TrainerTest, PlannedMemoryIsUsedMemory) {
  for (const char* evaluate : {"run.eval_every=0", "run.eval_every=8"}) {
    const TrainingSummary summary = run({.overrides = {evaluate, test::ddp(2)}}).summary;
    ASSERT_EQ(summary.planned_peak_bytes.size(), 2U);
    EXPECT_EQ(summary.planned_peak_bytes, summary.arena_peak_bytes);
    EXPECT_GT(summary.planned_peak_bytes.front(), 0);
  }
}

TEST_F(TrainerTest, CheckpointsComeAsOftenAsAsked) {
  const Result result = run({.overrides = {"run.checkpoint_every=3", test::ddp(2)}});
  std::vector<std::string> names;
  for (const CheckpointRecord& each : result.checkpoints) names.push_back(each.path.filename());
  EXPECT_THAT(names, ::testing::ElementsAre("step-00000003", "step-00000006", "step-00000008"));
}

TEST_F(TrainerTest, ALossThatIsNoNumberStopsTheRun) {
  RunOptions options{
      .overrides = {"optimizer.lr=1e30", "optimizer.schedule.kind=constant", "run.checkpoint_every=1", test::ddp(2)}};
  const std::string message = test::message_of<RuntimeError>([&] { (void)run(options); });
  EXPECT_THAT(message, HasSubstr("step 2: the "));
  EXPECT_EQ(CheckpointReader(find_checkpoint(folder_.path())).run().step, 1U);
}

TEST_F(TrainerTest, ACheckpointOfAnotherModelOrVocabularyIsRefused) {
  const fs::path checkpoint = run({.stop_after = 1}).checkpoints.back().path;
  const auto refusal = [&](const std::vector<std::string>& overrides) {
    return test::message_of<Error>([&] { (void)run({.overrides = overrides, .resume = checkpoint}); });
  };
  EXPECT_THAT(refusal({"model.embed=32"}), HasSubstr("was trained with 16; accepted: 16, or run.accept_changed"));
  EXPECT_THAT(refusal({"model.embed=32", "run.accept_changed=[\"model\"]"}), HasSubstr("this run's model has"));
  EXPECT_THAT(refusal({"data.tokenizer=chars"}), HasSubstr("another vocabulary"));
  EXPECT_THAT(refusal({"optimizer.plugin=sgd", "optimizer.momentum=0.9"}), HasSubstr("'optimizer/momentum/"));
}

/// Plain gradient descent has no state, neither in memory nor in a checkpoint.
TEST_F(TrainerTest, SgdWithoutMomentumKeepsNoState) {
  const auto states = [&](const std::string& momentum, const std::string& folder) {
    const Result result = run(
        {.overrides = {"optimizer.plugin=sgd", "optimizer.momentum=" + momentum}, .stop_after = 1, .folder = folder});
    const CheckpointReader checkpoint(result.checkpoints.back().path);
    std::size_t count = 0;
    for (const auto& [name, tensor] : checkpoint.manifest().tensors) count += name.starts_with("optimizer/") ? 1 : 0;
    return std::pair(count, result.summary.planned_peak_bytes.front());
  };
  const auto [with, bytes_with] = states("0.9", "with");
  const auto [without, bytes_without] = states("0", "without");
  EXPECT_GT(with, 0U);
  EXPECT_EQ(without, 0U);
  EXPECT_LT(bytes_without, bytes_with);

  // A run continues from such a checkpoint, also with another number of ranks.
  const std::vector<std::string> sgd = {"optimizer.plugin=sgd", "optimizer.momentum=0"};
  const Result whole = run({.overrides = sgd, .folder = "whole"});
  const fs::path half = run({.overrides = sgd, .stop_after = 4, .folder = "half"}).checkpoints.back().path;
  const Result rest =
      run({.overrides = {sgd[0], sgd[1], "strategy=[{plugin=\"zero\", size=2}]"}, .resume = half, .folder = "rest"});
  EXPECT_LT(parameter_difference(rest.checkpoints.back().path, whole.checkpoints.back().path), 1e-5);
}

TEST_F(TrainerTest, DataThatDoesNotFitIsRefusedWithItsPlace) {
  const auto refusal = [&](const std::vector<std::string>& overrides) {
    return test::message_of<ConfigurationError>([&] { (void)run({.overrides = overrides}); });
  };
  EXPECT_THAT(refusal({"data.path=nothing.txt"}),
              HasSubstr("--set data.path=nothing.txt: data.path: 'nothing.txt': cannot be opened: No such file"));
  EXPECT_THAT(refusal({"model.context=100000"}), HasSubstr("data.path: "));
  for (const std::string share : {"0.001", "0.0"}) {
    EXPECT_THAT(refusal({"data.validation=" + share, "run.eval_every=1"}),
                AllOf(HasSubstr("data.validation: found " + share), HasSubstr("the validation part has"),
                      HasSubstr("run.eval_every = 0")));
  }
  EXPECT_THAT(refusal({"batch.global=6", test::ddp(2)}), HasSubstr("batch.global: found 6; accepted: a multiple of 4"));
  const std::string tokens = folder_.file("tokens.bin", std::string(200, '\x01')).string();
  EXPECT_THAT(refusal({"data.plugin=tokens", "data.path=" + tokens, "model.vocab=256"}),
              HasSubstr("found token 257 at position 0, byte 0; expected: tokens from 0 to 255"));
  EXPECT_THAT(refusal({"data.plugin=tokens", "data.path=" + tokens}),
              HasSubstr("dimension 'vocab' has no size: dataset 'tokens' does not fix it"));
  EXPECT_THAT(refusal({"data.format=tokens"}),
              HasSubstr("data.format: unknown option of plugin 'text'; accepted: plugin, "));
}

}  // namespace
}  // namespace strata::host
