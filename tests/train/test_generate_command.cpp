#include <gmock/gmock.h>

#include "command_runner.hpp"
#include "small_run.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GenerateCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const CommandResult result = run_command({"train", config_, "--set", test::ddp(2), "--set", "data.tokenizer=chars",
                                              "--set", "model.dropout=0.0", "--steps", "150"});
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }
  [[nodiscard]] CommandResult generate(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"generate", (folder_.path() / "output").string()};
    arguments.insert(arguments.end(), {"--set", "device.threads=1"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

TEST_F(GenerateCommandTest, ContinuesThePromptInTheVocabulary) {
  // Longer than the context, so that the window slides.
  const CommandResult result = generate({"--prompt", "line 25 of the ", "--tokens", "40", "--seed", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.out, StartsWith("line 25 of the "));
  EXPECT_EQ(result.out.size(), std::string("line 25 of the ").size() + 40 + 1);
  EXPECT_EQ(result.out.find_first_not_of("line0123456789 ofthx\n"), std::string::npos) << result.out;

  EXPECT_EQ(generate({"--prompt", "line 25 of the ", "--tokens", "40", "--seed", "3"}).out, result.out);
  EXPECT_NE(generate({"--prompt", "line 25 of the ", "--tokens", "40", "--seed", "4"}).out, result.out);
}

TEST_F(GenerateCommandTest, WhatWasLearntComesOut) {
  const CommandResult result = generate({"--prompt", " of the te", "--tokens", "3", "--temperature", "0"});
  EXPECT_EQ(result.out, " of the text\n\n") << result.messages;
}

TEST_F(GenerateCommandTest, APromptOutsideOfTheVocabularyIsRefused) {
  const CommandResult result = generate({"--prompt", "line Q"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("character 'Q' at byte 5"));
}

TEST_F(GenerateCommandTest, AMissingCheckpointIsRefused) {
  const CommandResult result = run_command({"generate", "/nowhere"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("'/nowhere': there is no such checkpoint"));
}

}  // namespace
}  // namespace strata::host
