#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "small_tokenizers.hpp"
#include "strata/error.hpp"
#include "tokenizers/corpus/corpus_job.hpp"
#include "train/command_runner.hpp"

namespace strata::host {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

class TokenizeTest : public ::testing::Test {
 protected:
  static constexpr int kLongLines = 25000;

  [[nodiscard]] test::CommandResult tokenize(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"tokenize", tokenizer_.string(), "--output", output_.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_command(arguments);
  }

  /// Some MiB of JSON lines, so that they are read in several chunks.
  [[nodiscard]] std::filesystem::path long_lines() const {
    std::string lines;
    for (int i = 0; i < kLongLines; ++i) {
      const std::string number = std::to_string(i);
      lines += R"({"text": ")" + number + " the " + std::string(static_cast<std::size_t>(i % 200), 'x') + "\"}";
      lines += i % 1000 == 0 ? "\n\n" : "\n";
    }
    return folder_.file("long.jsonl", lines);
  }

  /// The tokens behind llm.c's header.
  [[nodiscard]] std::vector<std::uint16_t> stored() const {
    const std::string bytes = test::read_file(output_);
    std::array<std::int32_t, 3> header{};
    if (bytes.size() < 1024) return {};
    std::memcpy(header.data(), bytes.data(), sizeof header);
    EXPECT_THAT(header, ElementsAre(20240520, 1, (bytes.size() - 1024) / 2));
    std::vector<std::uint16_t> tokens((bytes.size() - 1024) / 2);
    std::memcpy(tokens.data(), bytes.data() + 1024, tokens.size() * 2);
    return tokens;
  }

  /// The tokens of bytes, and the special token for each #.
  static std::vector<std::uint16_t> letters(const std::string& text) {
    std::vector<std::uint16_t> tokens(text.begin(), text.end());
    std::replace(tokens.begin(), tokens.end(), std::uint16_t{'#'}, std::uint16_t{259});
    return tokens;
  }

  [[nodiscard]] CorpusJob job(const std::filesystem::path& input) const {
    CorpusJob job;
    job.tokenizer = tokenizer_;
    job.inputs = {input};
    job.output = output_;
    job.document_token = "<|endoftext|>";
    job.threads = 2;
    job.state_seconds = 0;
    return job;
  }

  /// Begins a job, and stops it behind its second chunk.
  static void interrupt(const CorpusJob& job) {
    int chunks = 0;
    const auto stop = [&](const CorpusProgress&) {
      if (++chunks == 2) throw RuntimeError("interrupted");
    };
    EXPECT_THROW((void)tokenize_corpus(job, stop), RuntimeError);
    EXPECT_FALSE(std::filesystem::exists(job.output));
    EXPECT_TRUE(std::filesystem::exists(job.output.string() + ".partial"));
  }

  static void ignore(const CorpusProgress& /*progress*/) {}

  static std::string refusal(const CorpusJob& job) {
    try {
      (void)tokenize_corpus(job, ignore);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "accepted";
  }

  test::TemporaryFolder folder_;
  std::filesystem::path tokenizer_ = folder_.file("tokenizer.json", testing::small_byte_level().dump());
  std::filesystem::path output_ = folder_.path() / "out.bin";
};

TEST_F(TokenizeTest, TextsAndLinesKeepTheirOrder) {
  const auto text = folder_.file("a.txt", "a the\n");
  const auto lines = folder_.file("b.jsonl", "{\"text\": \"b\"}\n\n{\"id\": 1, \"text\": \"\\u0074he\"}");
  const auto result = tokenize({text.string(), lines.string(), "--document-token", "<|endoftext|>"});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(stored(), ElementsAre('a', 258, '\n', 259, 'b', 259, 257, 259));
  EXPECT_THAT(result.out, HasSubstr("tokens 8\ndocuments 3\ndocuments_with_special_tokens 0\ntype uint16\n"));
  EXPECT_THAT(result.out, HasSubstr("document_end = 259"));
  const auto again = tokenize({text.string()});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.messages, HasSubstr("exists; accepted: another name, or --overwrite"));
  const auto wide =
      tokenize({text.string(), "--overwrite", "--dtype", "uint32", "--format", "raw", "--special-tokens"});
  ASSERT_EQ(wide.exit_code, 0) << wide.messages;
  EXPECT_EQ(test::read_file(output_).size(), 4 * 4);
  EXPECT_THAT(wide.out, HasSubstr("type = \"uint32\""));
}

/// A text from the web may contain what ends documents.
TEST_F(TokenizeTest, SpecialTokensInTextAreCountedAndMayStayText) {
  const auto lines = folder_.file("b.jsonl", "{\"text\": \"a<|endoftext|>b\"}\n{\"text\": \"<|endoftext\"}\n");
  const auto found = tokenize({lines.string()});
  ASSERT_EQ(found.exit_code, 0) << found.messages;
  EXPECT_THAT(found.out, HasSubstr("documents 2\ndocuments_with_special_tokens 1\n"));
  EXPECT_THAT(found.messages, HasSubstr("1 document contains the text of a special token, which became that token; "
                                        "--special-as-text makes it plain text"));
  EXPECT_THAT(stored(), ElementsAreArray(letters("a#b<|endoftext")));
  const auto plain = tokenize({lines.string(), "--special-as-text", "--overwrite", "--document-token", "259"});
  ASSERT_EQ(plain.exit_code, 0) << plain.messages;
  EXPECT_THAT(plain.out, HasSubstr("documents_with_special_tokens 1\n"));
  EXPECT_THAT(plain.messages, Not(HasSubstr("special token")));
  EXPECT_THAT(stored(), ElementsAreArray(letters("a<|endoftext|>b#<|endoftext#")));
}

TEST_F(TokenizeTest, BadLinesAreNamed) {
  struct Row {
    const char* line;
    const char* message;
  };
  for (const Row& row : std::vector<Row>{
           {"{\"text\": }", "', line 2, column 10: found no JSON"},
           {"[1]", "', line 2: found a value of the type array; accepted: an object with the text in its key 'text'"},
           {"{\"body\": \"b\"}", "', line 2: found an object without the key 'text'"},
           {"{\"text\": [{\"role\": \"user\", \"content\": \"a\"}]}",
            "', line 2: found in 'text' the messages of a chat, and Strata applies no chat template"},
           {"{\"text\": \"\xFF\"}", "', line 2, column 11: found no JSON"}}) {
    const auto lines = folder_.file("b.jsonl", "{\"text\": \"a\"}\n" + std::string(row.line) + "\n{\"text\": \"c\"}\n");
    const auto result = tokenize({lines.string(), "--overwrite"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.messages, HasSubstr(lines.string() + row.message));
    EXPECT_FALSE(std::filesystem::exists(output_));
  }
}

TEST_F(TokenizeTest, AnEmptyTextHasNoTokens) {
  const auto empty = folder_.file("empty.txt", "");
  EXPECT_THAT(tokenize({empty.string()}).messages, HasSubstr("found no text in '" + empty.string()));
  // The run ended before its first token, so another one may have other settings.
  const auto text = folder_.file("a.txt", "a");
  const auto result = tokenize({empty.string(), text.string(), empty.string(), "--special-tokens"});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(stored(), ElementsAre(259, 'a'));
}

TEST_F(TokenizeTest, TheDataSectionQuotesAnyPath) {
  output_ = folder_.path() / "a \"quoted\" name.bin";
  const auto result = tokenize({folder_.file("a.txt", "a").string()});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.out, HasSubstr(R"(a \"quoted\" name.bin")"));
}

TEST_F(TokenizeTest, WrongArgumentsAreRefused) {
  const auto text = folder_.file("a.txt", "a");
  EXPECT_THAT(tokenize({text.string(), "--append-eos"}).messages, HasSubstr("found no end-of-text token"));
  EXPECT_THAT(tokenize({text.string(), "--document-token", "<eos>"}).messages, HasSubstr("found '<eos>'; accepted"));
  EXPECT_THAT(tokenize({text.string(), "--document-token", "70000", "--dtype", "uint16"}).messages,
              HasSubstr("numbers up to 70000; accepted: auto, uint32"));
  EXPECT_THAT(tokenize({(folder_.path() / "none.txt").string()}).messages, HasSubstr("none.txt"));
}

TEST_F(TokenizeTest, WhatIsNoTextIsRefusedAsWhatItIs) {
  const std::vector<std::array<std::string, 3>> rows{{"alpaca.json", " [\n{\"text\": \"a\"}]", "found a JSON array"},
                                                     {"one.json", "{\"text\": \"a\"}", "found a JSON object"},
                                                     {"d.csv", "a,b\n", "found a table, by its name .csv"},
                                                     {"d.parquet", "PAR1....", "found a Parquet file"},
                                                     {"d.txt.gz", "\x1f\x8b....", "found an archive"}};
  for (const auto& [name, content, message] : rows) {
    const test::CommandResult result = tokenize({folder_.file(name, content).string()});
    EXPECT_EQ(result.exit_code, 2) << name;
    EXPECT_THAT(result.messages, HasSubstr(name + "': " + message + "; accepted: text, or one JSON object per line"));
    EXPECT_FALSE(std::filesystem::exists(output_));
  }
  EXPECT_EQ(tokenize({folder_.file("named.json", "{\"t\": \"a\"}\n").string(), "--jsonl-field", "t"}).exit_code, 0);
}

TEST_F(TokenizeTest, ARefusedJobLeavesNothing) {
  const auto left = [this] {
    return std::filesystem::exists(output_.string() + ".partial") ||
           std::filesystem::exists(output_.string() + ".progress");
  };
  const std::string empty = folder_.file("blank.jsonl", "\n\n").string();
  const test::CommandResult blank = tokenize({empty});
  EXPECT_EQ(blank.exit_code, 2);
  EXPECT_THAT(blank.messages, HasSubstr("found no text in '" + empty + "'; accepted: at least one token"));
  EXPECT_FALSE(left());
  EXPECT_EQ(tokenize({folder_.file("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 1e999}\n").string()}).exit_code, 2);
  EXPECT_FALSE(left());
}

TEST_F(TokenizeTest, NothingIsWrittenThroughALink) {
  const auto victim = folder_.file("victim", "untouched");
  const auto text = folder_.file("a.txt", "a the\n").string();
  std::filesystem::create_symlink(victim, output_.string() + ".partial");
  const test::CommandResult refused = tokenize({text});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.messages, HasSubstr("out.bin.partial': cannot be created: it is a symbolic link"));
  std::filesystem::remove(output_.string() + ".partial");
  // A link without a target, under the output's own name, gives way.
  std::filesystem::create_symlink(folder_.path() / "nowhere", output_);
  EXPECT_EQ(tokenize({text}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "nowhere"));
  EXPECT_EQ(test::read_file(victim), "untouched");
}

TEST_F(TokenizeTest, AnyNameOfAFileIsAccepted) {
  const test::CommandResult result = tokenize({folder_.file("\xff\x1b[31m.txt", "a the\n").string()});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
}

TEST_F(TokenizeTest, AnInterruptedRunContinues) {
  const CorpusJob whole = job(long_lines());
  (void)tokenize_corpus(whole, ignore);
  const std::vector<std::uint16_t> tokens = stored();
  ASSERT_GT(tokens.size(), 1000000U);
  std::filesystem::remove(output_);
  interrupt(whole);
  // What was written after the last note of the state does not count.
  std::ofstream(output_.string() + ".partial", std::ios::app) << "half-written";
  const CorpusResult result = tokenize_corpus(whole, ignore);
  EXPECT_GT(result.resumed_bytes, 0);
  EXPECT_EQ(result.progress.documents, kLongLines);
  EXPECT_TRUE(stored() == tokens);
  EXPECT_FALSE(std::filesystem::exists(output_.string() + ".progress"));
}

TEST_F(TokenizeTest, AnInterruptedRunDoesNotContinueWithOtherInput) {
  const auto input = long_lines();
  interrupt(job(input));
  CorpusJob other = job(input);
  other.document_token.reset();
  EXPECT_THAT(refusal(other), HasSubstr("another token before or after documents"));
  other = job(input);
  other.inputs.push_back(input);
  EXPECT_THAT(refusal(other), HasSubstr("--overwrite begins anew"));
  std::ofstream(input, std::ios::app) << "{\"text\": \"more\"}\n";
  EXPECT_THAT(refusal(job(input)), HasSubstr("another content of its inputs"));
  std::filesystem::resize_file(output_.string() + ".partial", 2000);
  (void)long_lines();
  EXPECT_THAT(test::message_of<RuntimeError>([&] { (void)tokenize_corpus(job(input), ignore); }),
              HasSubstr("found 2000 bytes; expected at least"));
  EXPECT_TRUE(std::filesystem::exists(output_.string() + ".partial"));
  other = job(input);
  other.overwrite = true;
  EXPECT_EQ(refusal(other), "accepted");
}

/// Text becomes tokens, a model learns them, and its tokens become text again.
TEST_F(TokenizeTest, AModelOfTokensWritesText) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"text\": \"the é the é the é the é the é\"}\n";
  ASSERT_EQ(tokenize({folder_.file("a.jsonl", lines).string(), "--special-tokens"}).exit_code, 0);
  const auto run = folder_.path() / "run";
  const auto config = folder_.file("run.toml", "[run]\nsteps = 100\noutput = \"" + run.string() +
                                                   "\"\n[model]\nplugin = \"gpt2\"\nlayers = 1\nheads = 2\n"
                                                   "embed = 32\ncontext = 16\nvocab = 260\ndropout = 0.0\n[data]\n"
                                                   "plugin = \"tokens\"\npath = \"" +
                                                   output_.string() +
                                                   "\"\n[batch]\nglobal = 8\nmicro = 8\n"
                                                   "[optimizer]\nlr = 1e-2\n");
  const auto trained = test::run_command({"train", config.string()});
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  const auto generate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"generate", run.string(), "--prompt",      "the é",
                                       "--tokens", "8",          "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_command(arguments);
  };
  const auto given = generate({"--tokenizer", tokenizer_.string()});
  EXPECT_EQ(given.out, "the é the é the é\n") << given.messages;
  // The checkpoint's own tokenizer serves as well.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run)) {
    if (entry.path().filename() != "manifest.json") continue;
    std::filesystem::create_directory(entry.path().parent_path() / "tokenizer");
    std::filesystem::copy_file(tokenizer_, entry.path().parent_path() / "tokenizer" / "tokenizer.json");
  }
  EXPECT_EQ(generate({}).out, given.out);
}

}  // namespace
}  // namespace strata::host
