#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "command_runner.hpp"
#include "small_run.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::HasSubstr;

class EvaluateCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const CommandResult trained = run_command(
        {"train", config_, "--set", test::ddp(2), "--set", "run.eval_every=8", "--set", "run.eval_batches=3", "--set",
         "optimizer.average={decay=0.9, evaluate=false}", "--set", "device.threads=1"});
    ASSERT_EQ(trained.exit_code, 0) << trained.messages;
    const std::string before = "validation loss ";
    const std::size_t at = trained.out.find(before);
    ASSERT_NE(at, std::string::npos) << trained.out;
    loss_ = std::stod(trained.out.substr(at + before.size()));
  }

  [[nodiscard]] CommandResult evaluate(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"evaluate", (folder_.path() / "output").string(), "--set", "device.threads=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }

  [[nodiscard]] nlohmann::json json(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const CommandResult result = evaluate(more);
    EXPECT_EQ(result.exit_code, 0) << result.messages;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
  /// What the training printed, to six digits.
  double loss_ = 0;
};

TEST_F(EvaluateCommandTest, GivesTheLossOfTrainingUnderEveryStack) {
  const nlohmann::json alone = json({});
  EXPECT_NEAR(alone.at("loss").get<double>(), loss_, 1e-5);
  EXPECT_NEAR(alone.at("perplexity").get<double>(), std::exp(loss_), 1e-4);
  EXPECT_EQ(alone.at("batches"), 3);
  for (const std::string stack :
       {R"({plugin="zero", size=2, stage=3})", R"({plugin="tensor", size=2, sequence_parallel=true})",
        R"({plugin="pipeline", size=2}, {plugin="context", size=2})", R"({plugin="localsgd", size=2})",
        R"({plugin="recompute"})"}) {
    EXPECT_NEAR(json({"--set", "strategy=[" + stack + "]"}).at("loss").get<double>(), loss_, 1e-5) << stack;
  }
  EXPECT_NEAR(json({"--stack"}).at("loss").get<double>(), loss_, 1e-5);
  EXPECT_NEAR(json({"--config", config_, "--set", "run.eval_batches=3"}).at("loss").get<double>(), loss_, 1e-5);
}

TEST_F(EvaluateCommandTest, CountsEveryTokenOfOtherFilesButTheFirst) {
  const std::string file = folder_.file("other.txt", test::small_text().substr(0, 100)).string();
  const nlohmann::json result = json({file});
  EXPECT_EQ(result.at("count"), 99);
  EXPECT_EQ(result.at("unit"), "token");
  EXPECT_NE(result.at("loss"), json({file, "--average"}).at("loss"));
  EXPECT_EQ(json({file, "--batches", "1"}).at("count"), 64);
  EXPECT_THAT(evaluate({file}).out, HasSubstr("99 tokens"));
}

TEST_F(EvaluateCommandTest, RefusesAModelThatLeavesAPartOfTheCheckpointOut) {
  const CommandResult result = evaluate({"--set", "model.layers=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("its parameters are not those of the model:"));
  EXPECT_THAT(result.messages, HasSubstr("unexpected: 'h.1.attn.q.weight'"));
}

TEST_F(EvaluateCommandTest, RefusesATextWhoseCharactersHaveOtherTokens) {
  const CommandResult trained = run_command(
      {"train", config_, "--overwrite", "--set", "data.tokenizer=chars", "--steps", "1", "--set", "device.threads=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  const CommandResult result = evaluate({folder_.file("other.txt", std::string(100, 'x') + "yz").string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("its tokens stand for other texts than those of the checkpoint"));
}

TEST_F(EvaluateCommandTest, RefusesMoreFilesThanTheDatasetReads) {
  const std::string file = folder_.file("other.txt", test::small_text()).string();
  const CommandResult result = evaluate({file, file});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("found 2 files; the dataset 'text' reads one"));
}

TEST_F(EvaluateCommandTest, RefusesAFileThatIsNotThere) {
  const CommandResult result = evaluate({"/nowhere.txt"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("/nowhere.txt"));
}

}  // namespace
}  // namespace strata::host
