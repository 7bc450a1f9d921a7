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
  EXPECT_THAT(result.messages, HasSubstr("found 2 file(s); the dataset 'text' reads a file for each of path"));
}

TEST_F(EvaluateCommandTest, RefusesAFileThatIsNotThere) {
  const CommandResult result = evaluate({"/nowhere.txt"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("/nowhere.txt"));
}

/// The options `path` and `target_path` take one file each.
TEST(EvaluatePairs, TakesAFileForEachOption) {
  const test::TemporaryFolder folder;
  const std::vector<std::uint16_t> document{2, 3, 4, 1};
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes.append(reinterpret_cast<const char*>(document.data()), document.size() * 2);
  const std::string file = folder.file("tokens.bin", bytes).string();
  const std::string output = (folder.path() / "output").string();
  const std::string config = folder
                                 .file("pairs.toml", "[run]\nname = \"pairs\"\nsteps = 1\noutput = \"" + output +
                                                         R"("
[model]
plugin = "t5"
layers = 1
heads = 2
head_dim = 2
embed = 4
ffn = 4
context = 8
target_context = 8
vocab = 8
[data]
plugin = "pairs"
document_end = 1
path = ")" + file + "\"\ntarget_path = \"" + file + R"("
[batch]
global = 2
[optimizer]
plugin = "sgd"
lr = 0.1
)")
                                 .string();
  const CommandResult trained = run_command({"train", config});
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  const CommandResult both = run_command({"evaluate", output, file, file});
  EXPECT_THAT(both.out, HasSubstr("80 tokens")) << both.messages;

  const CommandResult one = run_command({"evaluate", output, file});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.messages, HasSubstr("argument DATA: found 1 file(s); the dataset 'pairs' reads a file for each of "
                                      "path, target_path"));
  std::filesystem::remove(file);
  const CommandResult none = run_command({"evaluate", output});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.messages,
              ::testing::ContainsRegex(R"(manifest\.json \(configuration\):[0-9]+:[0-9]+: data\.path: )"));
}

}  // namespace
}  // namespace strata::host
