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
    const CommandResult result =
        run_command({"train", config_, "--set", test::ddp(2), "--set", "data.tokenizer=chars", "--set",
                     "model.dropout=0.0", "--set", "run.steps=150", "--set", "device.threads=1"});
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
  // The text is longer than the context, so that the window slides.
  const CommandResult result = generate({"--prompt", "line 25 of the ", "--tokens", "40", "--seed", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.out, StartsWith("line 25 of the "));
  EXPECT_EQ(result.out.size(), std::string("line 25 of the ").size() + 40 + 1);
  EXPECT_EQ(result.out.find_first_not_of("line0123456789 ofthx\n"), std::string::npos) << result.out;

  EXPECT_EQ(generate({"--prompt", "line 25 of the ", "--tokens", "40", "--seed", "3"}).out, result.out);
  EXPECT_NE(generate({"--prompt", "line 25 of the ", "--tokens", "40", "--seed", "4"}).out, result.out);
}

TEST_F(GenerateCommandTest, SeveralPromptsGiveTheTextsOfEachInOrder) {
  const std::string file = folder_.file("prompts.txt", "line 25\n\n of the\r\n").string();
  const std::vector<std::string> common{"--tokens", "12", "--seed", "3", "--top-p", "0.9", "--batch", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return generate(more).out;
  };
  const std::string alone = with({"--prompt", "text"}) + with({"--prompt", "line 25"}) + with({"--prompt", " of the"});
  EXPECT_EQ(with({"--prompt", "text", "--prompts", file}), alone);
}

TEST_F(GenerateCommandTest, AStopStringEndsATextAndIsNotPrinted) {
  const std::vector<std::string> stops{"--temperature", "0", "--tokens", "9", "--stop", "xt\n", "--stop", "never"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), stops.begin(), stops.end());
    return generate(more).out;
  };
  EXPECT_EQ(with({"--prompt", " of the te"}), " of the te\n");
  EXPECT_EQ(with({"--prompt", " of the", "--json"}), R"({"prompt":" of the","text":" te","tokens":6,"stopped":true})"
                                                     "\n");
}

TEST_F(GenerateCommandTest, RefusesBeforeItPrintsThePrompt) {
  struct Row {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Row& row : std::vector<Row>{{{"--set", "model.layers=1"}, "unexpected: 'h.1.attn.q.weight'"},
                                         {{"--set", "model.embed=64"}, "wrong shape: 'h.0.attn.c_proj.bias' is [16]"},
                                         {{"--average"}, "has no moving average"},
                                         {{"--temperature", "nan"}, "--temperature: found nan; accepted: at least 0"},
                                         {{"--top-p", "nan"}, "--top-p: found nan; accepted: 0 to 1"},
                                         {{"--tokens", "-1"}, "--tokens: found -1; accepted: at least 0"},
                                         {{"--batch", "0"}, "--batch: found 0; accepted: at least 1"},
                                         {{"--seed", "-1"}, "--seed: found -1; accepted: at least 0"}}) {
    std::vector<std::string> arguments{"--prompt", "text"};
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const CommandResult result = generate(arguments);
    EXPECT_EQ(result.exit_code, 2) << row.message;
    EXPECT_EQ(result.out, "") << row.message;
    EXPECT_THAT(result.messages, HasSubstr(row.message));
  }
}

TEST_F(GenerateCommandTest, WhatWasLearntComesOut) {
  const CommandResult result = generate({"--prompt", " of the te", "--tokens", "3", "--temperature", "0"});
  EXPECT_EQ(result.out, " of the text\n\n") << result.messages;
}

/// The replicas of a streaming run never agree, but the values on which they agreed last have learnt the text.
TEST_F(GenerateCommandTest, ReplicasThatDifferGiveTheirAgreedValues) {
  const CommandResult trained = run_command(
      {"train", config_, "--overwrite", "--set",
       "strategy=[{plugin=\"localsgd\", size=2, steps=4, fragments=2, overlap=true, outer_momentum=0.0, outer_lr=1.0}]",
       "--set", "data.tokenizer=chars", "--set", "model.dropout=0.0", "--set", "run.steps=150", "--set",
       "device.threads=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  const CommandResult result = generate({"--prompt", " of the te", "--tokens", "3", "--temperature", "0"});
  EXPECT_EQ(result.out, " of the text\n\n") << result.messages;
}

/// Adapters are a part of the model, so generation on one rank keeps the strategy that adds them.
TEST_F(GenerateCommandTest, AdaptersStayPartOfTheModel) {
  const CommandResult trained = run_command(
      {"train", config_, "--overwrite", "--set",
       "strategy=[{plugin=\"zero\", size=2, stage=3}, {plugin=\"lora\", rank=8, targets=[\"h.*.mlp.*.weight\", "
       "\"h.*.attn.*.weight\", \"wte.weight\"], train=[\"*ln_*\", \"*.bias\", \"wpe.weight\"]}]",
       "--set", "data.tokenizer=chars", "--set", "model.dropout=0.0", "--set", "run.steps=300", "--set",
       "device.threads=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  const CommandResult result = generate({"--prompt", " of the te", "--tokens", "3", "--temperature", "0"});
  EXPECT_EQ(result.out, " of the text\n\n") << result.messages;
}

/// The prompt is one document, so the model continues it as a document of its training.
TEST_F(GenerateCommandTest, ContinuesADocumentWithinTheWindow) {
  const std::vector<std::uint16_t> documents{1, 2, 3, 4, 0, 5, 6, 7, 8, 0};
  std::string bytes;
  for (int i = 0; i < 60; ++i) bytes.append(reinterpret_cast<const char*>(documents.data()), documents.size() * 2);
  const CommandResult trained =
      run_command({"train", config_, "--overwrite", "--set",
                   "data={plugin=\"tokens\", path=\"" + folder_.file("tokens.bin", bytes).string() +
                       "\", documents=\"token\", document_end=0, cross_document_targets=false}",
                   "--set", "model.documents=true", "--set", "model.window=3", "--set", "model.vocab=16", "--set",
                   "model.dropout=0.0", "--set", "run.steps=100", "--set", "device.threads=1", "--set",
                   "strategy=[{plugin=\"context\", size=2}]"});
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  const CommandResult result = generate({"--prompt", "5 6", "--tokens", "3", "--temperature", "0"});
  EXPECT_EQ(result.out, "5 6 7 8 0\n") << result.messages;
}

TEST_F(GenerateCommandTest, APromptOutsideOfTheVocabularyIsRefused) {
  const CommandResult result = generate({"--prompt", "line Q"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("character 'Q' at byte 5"));
}

/// The checkpoint's configuration has options of the device that the run used. Another device must not get them.
TEST_F(GenerateCommandTest, AnotherDeviceTakesNoOptionsOfTheRunsDevice) {
  const auto write_on = [&](const std::string& device) {
    std::vector<std::string> arguments{"generate",      (folder_.path() / "output").string(),
                                       "--prompt",      "line 25 of the ",
                                       "--tokens",      "8",
                                       "--temperature", "0",
                                       "--set",         "device.plugin=" + device};
    return run_command(arguments);
  };
  const CommandResult on_cpu = write_on("cpu");
  ASSERT_EQ(on_cpu.exit_code, 0) << on_cpu.messages;
  const CommandResult on_reference = write_on("reference");
  EXPECT_EQ(on_reference.exit_code, 0) << on_reference.messages;
  EXPECT_EQ(on_reference.out, on_cpu.out);
}

TEST_F(GenerateCommandTest, AMissingCheckpointIsRefused) {
  const CommandResult result = run_command({"generate", "/nowhere"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("'/nowhere': there is no such checkpoint"));
}

}  // namespace
}  // namespace strata::host
