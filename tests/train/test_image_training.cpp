/// \file
/// A small classifier of images, trained on files in the format of CIFAR-10: nothing about tokens is left in the host.

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "build_paths.hpp"
#include "command_runner.hpp"
#include "datasets/image_files.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kStack = R"(strategy=[{plugin="ddp", size=2, axis="outer"}, {plugin="zero", size=2, stage=2}])";

class ImageTraining : public ::testing::Test {
 protected:
  ImageTraining() {
    const auto file = [&](const char* name, int first, int count) {
      return "\"" + folder_.file(name, testing::cifar10_file(first, count)).string() + "\"";
    };
    configuration_ = "[run]\nsteps = 20\neval_every = 10\noutput = \"" + (folder_.path() / "output").string() +
                     "\"\n[model]\nplugin = \"sample_images\"\nhidden = 24\n[data]\nplugin = \"images\"\npaths = [" +
                     file("one.bin", 0, 100) + ", " + file("two.bin", 100, 60) + "]\nvalidation_paths = [" +
                     file("test.bin", 1000, 50) +
                     "]\nmean = [0.4, 0.4, 0.4]\nstd = [0.2, 0.2, 0.2]\nflip = true\ncrop = 2\n" +
                     "[batch]\nglobal = 16\nmicro = 2\n[optimizer]\nlr = 3e-3\nclip = 1.0\n" +
                     "[device]\nplugin = \"cpu\"\nthreads = 1\n";
    ::setenv("STRATA_PLUGIN_PATH", sample_plugin_folder().c_str(), 1);
  }
  ~ImageTraining() override { ::unsetenv("STRATA_PLUGIN_PATH"); }

  RunRecorder run(const std::vector<std::string>& overrides, bool f64, const fs::path& resume = {}) {
    RunSetup setup = prepare(parse_configuration(configuration_, "images.toml", overrides), registry_);
    if (f64) setup.float_type = DType::f64;
    const DataSource source = setup.open_data();
    RunRecorder recorder;
    Trainer(setup, source, {folder_.path() / std::to_string(runs_++), 0, 0}, {resume}, recorder).run();
    return recorder;
  }

  test::TemporaryFolder folder_;
  std::string configuration_;
  PluginRegistry registry_{{plugin_folder(), sample_plugin_folder()}};
  int runs_ = 0;
};

TEST_F(ImageTraining, LearnsTheClasses) {
  const RunRecorder result = run({"run.steps=60"}, false);
  EXPECT_NEAR(result.losses.front(), std::log(10), 1.0);
  EXPECT_LT(result.losses.back(), 0.5);
  ASSERT_EQ(result.evaluations.size(), 6U);
  EXPECT_EQ(result.evaluations.back().tokens, 50) << "every image of validation once";
  EXPECT_LT(result.evaluations.back().loss, 0.5);
}

TEST_F(ImageTraining, AStackTrainsAsOneRank) {
  const RunRecorder one = run({"device={plugin=\"reference\"}"}, true);
  const RunRecorder four = run({"device={plugin=\"reference\"}", kStack}, true);
  ASSERT_EQ(one.losses.size(), 20U);
  ASSERT_EQ(four.losses.size(), 20U);
  for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(four.losses[i], one.losses[i], 1e-10) << i;
  ASSERT_EQ(four.evaluations.size(), 2U);
  EXPECT_NEAR(four.evaluations[1].loss, one.evaluations[1].loss, 1e-10);
  EXPECT_EQ(four.evaluations[1].tokens, 50);
}

TEST_F(ImageTraining, MixedPrecisionReadsImagesToo) {
  const RunRecorder plain = run({}, false);
  const RunRecorder mixed = run({R"(strategy=[{plugin="precision"}, {plugin="ddp", size=2}])"}, false);
  for (std::size_t i = 0; i < plain.losses.size(); ++i) EXPECT_NEAR(mixed.losses[i], plain.losses[i], 0.1) << i;
}

TEST_F(ImageTraining, AResumedRunGoesOnAsIfNeverStopped) {
  const RunRecorder whole = run({}, false);
  const RunRecorder before = run({"run.steps=7"}, false);
  const RunRecorder after = run({}, false, before.last_checkpoint());
  std::vector<double> joined = before.losses;
  joined.insert(joined.end(), after.losses.begin(), after.losses.end());
  EXPECT_EQ(joined, whole.losses);
  const CheckpointReader checkpoint(before.last_checkpoint());
  EXPECT_EQ(checkpoint.run().vocabulary, std::nullopt);
  EXPECT_EQ(checkpoint.run().data->sizes.at("classes"), 10);
}

/// Evaluation reads the running averages of batch norms, which a checkpoint holds for every layout.
TEST_F(ImageTraining, RunningAveragesGoOnInAnotherLayout) {
  const auto run_resnet = [&](std::vector<std::string> overrides, const fs::path& resume = {}) {
    overrides.insert(overrides.end(), {R"(model={plugin="resnet", layers=[1, 1], planes=2, stem="cifar", image=32})",
                                       "device={plugin=\"reference\"}", "run.eval_every=2"});
    return run(overrides, true, resume);
  };
  const RunRecorder whole = run_resnet({"batch.micro=8", "run.steps=4"});
  const RunRecorder before = run_resnet({R"(strategy=[{plugin="ddp", size=2}])", "batch.micro=4", "run.steps=2"});
  const RunRecorder after = run_resnet(
      {R"(strategy=[{plugin="zero", size=2, stage=3}, {plugin="tensor", size=2}])", "batch.micro=4", "run.steps=4"},
      before.last_checkpoint());
  ASSERT_EQ(after.losses.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(before.losses[i], whole.losses[i], 1e-10);
    EXPECT_NEAR(after.losses[i], whole.losses[i + 2], 1e-10);
  }
  ASSERT_EQ(whole.evaluations.size(), 2U);
  EXPECT_NEAR(before.evaluations.back().loss, whole.evaluations[0].loss, 1e-10);
  EXPECT_NEAR(after.evaluations.back().loss, whole.evaluations[1].loss, 1e-10);
}

/// Verification needs no data.
TEST_F(ImageTraining, StacksAreVerifiedOnRandomImages) {
  for (const char* stack :
       {kStack, R"(strategy=[{plugin="tensor", size=2}])", R"(strategy=[{plugin="pipeline", size=2}])"}) {
    const RunConfiguration configuration =
        parse_configuration(configuration_, "images.toml", {stack, "data.paths=[\"none\"]"});
    for (const bool full : {false, true}) {
      const Verification verification = verify_stack(configuration, registry_, {3, full});
      EXPECT_LT(verification.difference.worst(), 1e-10) << stack << verification.difference.worst_parameter;
      EXPECT_EQ(verification.stack.replica_difference, 0);
    }
  }
}

TEST_F(ImageTraining, CommandsSpeakOfImages) {
  const std::string config = folder_.file("images.toml", configuration_).string();
  const auto command = [&](const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{name, config};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_command(arguments);
  };
  EXPECT_EQ(command("check").exit_code, 0);
  EXPECT_THAT(command("explain").out, HasSubstr(" FLOP per image"));
  EXPECT_EQ(command("verify", {"--set", kStack}).exit_code, 0);
  EXPECT_EQ(command("verify", {"--ops"}).exit_code, 0);
  const test::CommandResult trained = command("train", {"--steps", "3"});
  EXPECT_EQ(trained.exit_code, 0) << trained.messages;
  EXPECT_THAT(trained.messages, HasSubstr("160 images of '"));
  EXPECT_THAT(trained.messages, HasSubstr(" images/s  "));
  EXPECT_THAT(trained.out, HasSubstr(" nats per image\n"));
  const std::string others = folder_.file("others.bin", testing::cifar10_file(2000, 30)).string();
  const test::CommandResult evaluated =
      test::run_command({"evaluate", (folder_.path() / "output").string(), others, others});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.messages;
  EXPECT_THAT(evaluated.out, HasSubstr("  60 images  ")) << "each image of each file once";
  const test::CommandResult generated = test::run_command({"generate", (folder_.path() / "output").string()});
  EXPECT_EQ(generated.exit_code, 2);
  EXPECT_THAT(generated.messages, HasSubstr("model 'sample_images' generates no text; accepted: a model that does"));
}

TEST_F(ImageTraining, SizesThatDoNotFitAreRefusedWithBothSides) {
  const auto refusal = [&](const std::vector<std::string>& overrides) {
    return test::message_of<ConfigurationError>([&] { run(overrides, false); });
  };
  EXPECT_THAT(refusal({"model={plugin=\"gpt2\", layers=1, heads=1, embed=8, context=4, vocab=8}"}),
              HasSubstr("it reads the input 'tokens'; the data has: images, labels"));
  EXPECT_THAT(refusal({"data={plugin=\"text\", path=\"" + (folder_.path() / "one.bin").string() + "\"}"}),
              HasSubstr("the model fixes no size of 'seq'"));
}

}  // namespace
}  // namespace strata::host
