// Runs in bf16 and fp16 on the cpu device: their accuracy compared with f32, and their reaction to an overflow.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "build_paths.hpp"
#include "train/run_recorder.hpp"
#include "train/small_run.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

class PrecisionTraining : public ::testing::Test {
 protected:
  /// Trains on two ranks with the precision strategy.
  RunRecorder run(const std::string& options, const fs::path& resume = {}, std::uint64_t stop_after = 0) {
    return run_stack("{plugin=\"ddp\", size=2}, ", options, resume, stop_after);
  }

  RunRecorder run_stack(const std::string& strategies, const std::string& options, const fs::path& resume = {},
                        std::uint64_t stop_after = 0) {
    const std::string all = "strategy=[" + strategies + "{plugin=\"precision\", " + options + "}]";
    const RunConfiguration parsed =
        parse_configuration(test::small_configuration(folder_), "small.toml", {all, "device.threads=1"});
    const RunSetup setup = prepare(parsed, registry_);
    const DataSource source = setup.open_data();
    RunRecorder result(stop_after);
    const fs::path checkpoints = folder_.path() / ("checkpoints" + std::to_string(runs_++));
    Trainer(setup, source, {checkpoints, 0, 0}, {resume}, result).run();
    return result;
  }

  static void expect_equal(const StepRecord& a, const StepRecord& b) {
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.loss, b.loss) << "step " << a.step;
    EXPECT_EQ(a.loss_scale, b.loss_scale) << "step " << a.step;
    EXPECT_EQ(a.skipped, b.skipped) << "step " << a.step;
    if (a.skipped) return;
    EXPECT_EQ(a.gradient_norm, b.gradient_norm) << "step " << a.step;
  }

  TemporaryFolder folder_;
  PluginRegistry registry_{{plugin_folder()}};
  int runs_ = 0;
};

/// Rounding to 8 bits of every activation moves the loss by less than a part in a hundred.
TEST_F(PrecisionTraining, FollowsF32) {
  const RunRecorder f32 = run("compute=\"f32\"");
  for (const auto& [options, tolerance] : {std::pair{"compute=\"bf16\"", 1e-2}, std::pair{"compute=\"fp16\"", 2e-3},
                                           std::pair{"compute=\"bf16\", reduce=\"bf16\"", 1e-2}}) {
    SCOPED_TRACE(options);
    const RunRecorder found = run(options);
    ASSERT_EQ(found.steps.size(), f32.steps.size());
    for (std::size_t i = 0; i < found.steps.size(); ++i) {
      EXPECT_NEAR(found.steps[i].loss, f32.steps[i].loss, tolerance * f32.steps[i].loss) << "step " << i + 1;
      EXPECT_FALSE(found.steps[i].skipped);
    }
    EXPECT_NE(found.steps.back().loss, f32.steps.back().loss) << "the types made no difference: were they used?";
  }
}

/// Stacks with every strategy that communicates values or gradients, in 16-bit types.
TEST_F(PrecisionTraining, FollowsF32InEveryStack) {
  const RunRecorder f32 = run_stack("", "compute=\"f32\"", {}, 4);
  for (const std::string stack :
       {"{plugin=\"zero\", size=2, stage=2}, ", "{plugin=\"zero\", size=2, stage=3}, ",
        "{plugin=\"dataparallel\", size=2}, ", "{plugin=\"tensor\", size=2, sequence_parallel=true}, ",
        "{plugin=\"context\", size=2, attention=\"ring\"}, ", "{plugin=\"context\", size=2, attention=\"ulysses\"}, ",
        "{plugin=\"pipeline\", size=2}, ", "{plugin=\"recompute\"}, "}) {
    for (const auto& [options, tolerance] :
         {std::pair{"compute=\"bf16\"", 1e-2}, std::pair{"compute=\"fp16\"", 2e-3}}) {
      SCOPED_TRACE(stack + options);
      const RunRecorder found = run_stack(stack, options, {}, 4);
      ASSERT_EQ(found.steps.size(), 4U);
      for (std::size_t i = 0; i < found.steps.size(); ++i) {
        EXPECT_NEAR(found.steps[i].loss, f32.steps[i].loss, tolerance * f32.steps[i].loss) << "step " << i + 1;
        EXPECT_NEAR(found.steps[i].gradient_norm, f32.steps[i].gradient_norm, 0.05 * f32.steps[i].gradient_norm);
      }
    }
  }
}

/// Converted collectives carry bf16 gradients unchanged and overlap with the backward pass. The check accepts the
/// stack, whose conversions need ops and scratch memory of the device. The run gives the results of plain collectives.
TEST_F(PrecisionTraining, ConvertedReductionsOfShortGradientsFollowPlainOnes) {
  const std::string types = "compute=\"bf16\", reduce=\"bf16\"";
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const std::string zero = "{plugin=\"zero\", size=2, bucket_mb=0.002, stage=" + std::to_string(stage);
    const RunRecorder plain = run_stack(zero + "}, ", types, {}, 4);
    const RunRecorder converted = run_stack(zero + ", quantized_gradients=true, quantization=\"off\"}, ", types, {}, 4);
    ASSERT_EQ(converted.steps.size(), plain.steps.size());
    for (std::size_t i = 0; i < plain.steps.size(); ++i) {
      EXPECT_NEAR(converted.steps[i].loss, plain.steps[i].loss, 1e-3 * plain.steps[i].loss) << "step " << i + 1;
      EXPECT_NEAR(converted.steps[i].gradient_norm, plain.steps[i].gradient_norm, 0.01 * plain.steps[i].gradient_norm);
    }
  }
}

/// Multiplication by a power of two changes exponents only.
TEST_F(PrecisionTraining, IsBitwiseTheSameAtEveryScaleInF32) {
  const RunRecorder plain = run("compute=\"f32\"");
  const RunRecorder scaled = run("compute=\"f32\", loss_scale=\"static\", initial_scale=1048576.0");
  ASSERT_EQ(plain.steps.size(), scaled.steps.size());
  for (std::size_t i = 0; i < plain.steps.size(); ++i) {
    EXPECT_EQ(plain.steps[i].loss, scaled.steps[i].loss);
    EXPECT_EQ(plain.steps[i].gradient_norm, scaled.steps[i].gradient_norm);
  }
}

/// A scale of 2^26 over 64 tokens overflows fp16 for any gradient. After enough halvings it does not.
constexpr const char* kOverflowing = "compute=\"fp16\", initial_scale=67108864.0, growth_interval=2";

TEST_F(PrecisionTraining, SkipsOverflowsOnAllRanksAndGoesOn) {
  const RunRecorder result = run(kOverflowing);
  const std::vector<StepRecord>& steps = result.steps;
  ASSERT_TRUE(steps[0].skipped);
  ASSERT_FALSE(steps.back().skipped && steps[steps.size() - 2].skipped) << "the scale never came to rest";
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const double before = steps[i - 1].loss_scale.value();
    const double now = steps[i].loss_scale.value();
    if (steps[i - 1].skipped) {
      EXPECT_EQ(now, before / 2) << "step " << i + 1;
    } else {
      EXPECT_TRUE(now == before || now == 2 * before) << "step " << i + 1;
    }
  }
  // If the replicas of the two ranks differed, the norm of a later step would differ from that of an unscaled run.
  EXPECT_TRUE(std::isfinite(steps.back().gradient_norm) || steps.back().skipped);
}

/// All tensors of a checkpoint, in f64.
std::map<std::string, std::vector<double>> tensors(const fs::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  std::map<std::string, std::vector<double>> result;
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    std::vector<IndexMap> dims;
    for (const std::int64_t size : tensor.shape) dims.push_back(IndexMap::whole(size));
    std::vector<double>& values = result[name];
    values.resize(static_cast<std::size_t>(element_count(tensor.shape)));
    reader.read(name, TensorPart::block(dims), DType::f64, values.data());
  }
  return result;
}

TEST_F(PrecisionTraining, ChangesNothingInASkippedStep) {
  const RunRecorder good = run("compute=\"fp16\", loss_scale=\"static\", initial_scale=1024.0", {}, 2);
  const RunRecorder skipped =
      run("compute=\"fp16\", loss_scale=\"static\", initial_scale=1e12", good.last_checkpoint(), 3);
  ASSERT_EQ(skipped.steps.size(), 1U);
  ASSERT_TRUE(skipped.steps[0].skipped);
  const auto before = tensors(good.last_checkpoint());
  EXPECT_EQ(tensors(skipped.last_checkpoint()), before);
  // The optimizer's states are among the tensors, and training has changed them.
  EXPECT_TRUE(before.contains("optimizer/master/wte.weight"));
  EXPECT_NE(before.at("optimizer/first_moment/ln_f.bias"), std::vector<double>(16, 0.0));
}

TEST_F(PrecisionTraining, ResumesTheScaleWhereItWas) {
  const RunRecorder whole = run(kOverflowing);
  const RunRecorder begun = run(kOverflowing, {}, 5);
  const RunRecorder resumed = run(kOverflowing, begun.last_checkpoint());
  ASSERT_EQ(begun.steps.size() + resumed.steps.size(), whole.steps.size());
  for (std::size_t i = 0; i < whole.steps.size(); ++i) {
    expect_equal(i < 5 ? begun.steps[i] : resumed.steps[i - 5], whole.steps[i]);
  }
}

}  // namespace
}  // namespace strata::host
