// The tokenizer that a run on tokens names, and its checkpoints carry.

#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>

#include "small_tokenizers.hpp"
#include "train/command_runner.hpp"
#include "train/small_run.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class NamedTokenizerTest : public ::testing::Test {
 protected:
  [[nodiscard]] CommandResult run(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{
        command, config_, "--set", "data={plugin=\"tokens\", path=\"" + tokens_ + "\"}", "--set", "device.threads=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }
  [[nodiscard]] std::string generated(const std::string& output = "output") const {
    return run_command({"generate", folder(output), "--prompt", "the", "--tokens", "2"}).out;
  }
  [[nodiscard]] std::string folder(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] static std::string written_tokens() {
    std::string bytes;
    for (int i = 0; i < 200; ++i) bytes += {static_cast<char>('a' + i % 5), 0};
    return bytes;
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
  std::string tokens_ = folder_.file("tokens.bin", written_tokens()).string();
  std::string tokenizer_ = folder_.file("bpe.json", testing::small_byte_level().dump()).string();
};

TEST_F(NamedTokenizerTest, CheckpointsCarryIt) {
  const std::string vocab = "model.vocab=260";
  const CommandResult first =
      run("train", {"--set", vocab, "--set", "data.tokenizer=" + tokenizer_, "--steps", "2", "--resume", "auto"});
  ASSERT_EQ(first.exit_code, 0) << first.messages;
  EXPECT_THAT(generated(), StartsWith("the"));
  // A run that goes on without a name keeps it.
  const CommandResult second = run("train", {"--set", vocab, "--steps", "4", "--resume", "auto"});
  ASSERT_EQ(second.exit_code, 0) << second.messages;
  EXPECT_THAT(second.out, HasSubstr("steps 4"));
  EXPECT_THAT(generated(), StartsWith("the"));
}

TEST_F(NamedTokenizerTest, ComesBeforeThatOfTheStart) {
  const auto train_from = [&](const std::string& start, const std::string& output, const std::string& tokenizer) {
    std::vector<std::string> more{"--set", "model={plugin=\"gpt2\", from=\"" + folder(start) + "\"}", "--set",
                                  "run.output=" + folder(output)};
    if (!tokenizer.empty()) more.insert(more.end(), {"--set", "data.tokenizer=" + tokenizer});
    const CommandResult result = run("train", more);
    EXPECT_EQ(result.exit_code, 0) << result.messages;
  };
  ASSERT_EQ(run("train", {"--set", "model.vocab=260"}).exit_code, 0);
  EXPECT_EQ(generated(), "");
  // A folder, as transformers writes it.
  std::filesystem::create_directory(folder("published"));
  static_cast<void>(folder_.file("published/tokenizer.json", testing::small_byte_level().dump()));
  train_from("output", "named", folder("published"));
  EXPECT_THAT(generated("named"), StartsWith("the"));
  train_from("named", "inherited", "");
  EXPECT_THAT(generated("inherited"), StartsWith("the"));
  train_from("named", "replaced", tokenizer_);
  EXPECT_THAT(generated("replaced"), StartsWith("the"));
}

/// The data repeats "abc" and the end of the text, which the folder of the tokenizer names as folders of models do.
TEST_F(NamedTokenizerTest, ATextEndsAtTheTokenThatTheModelNames) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += std::string{'a', 0, 'b', 0, 'c', 0, 3, 1};
  std::filesystem::create_directory(folder("published"));
  static_cast<void>(folder_.file("published/tokenizer.json", testing::small_byte_level().dump()));
  static_cast<void>(folder_.file("published/generation_config.json", R"({"eos_token_id": [7, 259]})"));
  const std::string tokens = folder_.file("ends.bin", bytes).string();
  const CommandResult trained =
      run_command({"train", config_, "--set", "data={plugin=\"tokens\", path=\"" + tokens + "\"}", "--set",
                   "data.tokenizer=" + folder("published"), "--set", "model.vocab=260", "--set", "model.dropout=0.0",
                   "--set", "run.steps=60", "--set", "device.threads=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  const auto generate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"generate", folder("output"), "--prompt", "ab", "--tokens",
                                   "5",        "--temperature",  "0"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words).out;
  };
  EXPECT_EQ(generate({}), "abc\n");
  EXPECT_EQ(generate({"--json"}), R"({"prompt":"ab","text":"c","tokens":2,"stopped":true})"
                                  "\n");
  EXPECT_EQ(generate({"--ignore-eos"}), "abcabc\n");
  EXPECT_EQ(generate({"--ignore-eos", "--special"}), "abc<|endoftext|>abc\n");
  EXPECT_EQ(generate({"--special"}), "abc<|endoftext|>\n");
  EXPECT_EQ(generate({"--ignore-eos", "--stop", "c<|endoftext|>"}), "ab\n");
}

TEST_F(NamedTokenizerTest, OneThatDoesNotFitIsRefused) {
  for (const std::string command : {"check", "train"}) {
    const auto refusal = [&](const std::string& path, const std::string& vocab) {
      const CommandResult result = run(command, {"--set", "model.vocab=" + vocab, "--set", "data.tokenizer=" + path});
      EXPECT_NE(result.exit_code, 0);
      return result.out + result.messages;
    };
    EXPECT_THAT(refusal(tokenizer_, "259"), HasSubstr("numbered up to 259; accepted: a tokenizer with numbers below"));
    EXPECT_THAT(refusal("/nowhere", "260"), HasSubstr("data.tokenizer: '/nowhere': found no file"));
  }
}

}  // namespace
}  // namespace strata::host
