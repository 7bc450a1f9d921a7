#include <gmock/gmock.h>

#include "strata/error.hpp"
#include "temporary_folder.hpp"
#include "train/data/corpus.hpp"

namespace strata::host {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int32_t> all_tokens(const Corpus& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, corpus.size(), tokens.data());
  return tokens;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A file in llm.c's format.
std::string llmc_file(std::int32_t magic, std::int32_t version, std::int32_t count,
                      const std::vector<std::uint16_t>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header) + bytes_of(tokens);
}

class CorpusTest : public ::testing::Test {
 protected:
  Corpus text(const std::string& bytes, Vocabulary::Kind kind, double validation = 0) {
    return Corpus({folder_.file("text.txt", bytes), DataSettings::Format::text, kind, validation});
  }
  Corpus tokens(const std::string& bytes) {
    return Corpus({folder_.file("tokens.bin", bytes), DataSettings::Format::tokens, {}, 0});
  }
  std::string refusal_of_tokens(const std::string& bytes) {
    return message_of<ConfigurationError>([&] { (void)tokens(bytes); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(CorpusTest, BytesAreTokens) {
  const Corpus corpus = text("a\xFF\n", Vocabulary::Kind::bytes);
  EXPECT_THAT(all_tokens(corpus), ElementsAre('a', 255, '\n'));
  EXPECT_EQ(token_count(corpus.vocabulary()), 256);
}

TEST_F(CorpusTest, CharactersAreSortedCodePoints) {
  const Corpus corpus = text("b€ab", Vocabulary::Kind::characters);
  EXPECT_THAT(all_tokens(corpus), ElementsAre(1, 2, 0, 1));
  EXPECT_EQ(token_count(corpus.vocabulary()), 3);
  EXPECT_EQ(make_tokenizer(corpus.vocabulary())->decode(all_tokens(corpus)), "b€ab");
}

TEST_F(CorpusTest, RawTokens) {
  const Corpus corpus = tokens(bytes_of<std::uint16_t>({0, 50256, 65535}));
  EXPECT_THAT(all_tokens(corpus), ElementsAre(0, 50256, 65535));
  EXPECT_EQ(token_count(corpus.vocabulary()), std::nullopt);
}

TEST_F(CorpusTest, TokensBehindAHeader) {
  EXPECT_THAT(all_tokens(tokens(llmc_file(20240520, 1, 2, {7, 50256}))), ElementsAre(7, 50256));
}

TEST_F(CorpusTest, DamagedTokenFilesAreRefused) {
  EXPECT_THAT(refusal_of_tokens(llmc_file(20240520, 1, 3, {7, 8})), HasSubstr("announces 3 tokens"));
  EXPECT_THAT(refusal_of_tokens(llmc_file(20240520, 2, 2, {7, 8})), HasSubstr("version 2"));
  EXPECT_THAT(refusal_of_tokens(llmc_file(20240520, 1, 0, {})), HasSubstr("no token"));
  EXPECT_THAT(refusal_of_tokens(llmc_file(20240801, 7, 1, {7, 8})), HasSubstr("uint32"));
  EXPECT_THAT(refusal_of_tokens("abc"), HasSubstr("no whole number"));
}

TEST_F(CorpusTest, UnreadableFilesAreNamed) {
  const auto open = [](const std::filesystem::path& path) {
    return message_of<ConfigurationError>([&] { Corpus corpus({path, {}, {}, 0}); });
  };
  const auto missing = folder_.path() / "missing.txt";
  EXPECT_THAT(open(missing), HasSubstr(missing.string()));
  EXPECT_THAT(open(missing), HasSubstr("No such file"));
  EXPECT_THAT(open(folder_.path()), HasSubstr("not a regular file"));
  EXPECT_THAT(open(folder_.file("empty.txt", "")), HasSubstr("empty.txt': the file is empty"));
}

TEST_F(CorpusTest, TextThatIsNotUtf8IsNamed) {
  const std::string message =
      message_of<ConfigurationError>([&] { (void)text("ab\xFF", Vocabulary::Kind::characters); });
  EXPECT_THAT(message, HasSubstr("text.txt': byte 2"));
}

TEST_F(CorpusTest, ValidationIsTheEnd) {
  const Corpus corpus = text("0123456789", Vocabulary::Kind::bytes, 0.25);
  EXPECT_EQ(corpus.training().begin, 0);
  EXPECT_EQ(corpus.training().size, 8);
  EXPECT_EQ(corpus.validation().begin, 8);
  EXPECT_EQ(corpus.validation().size, 2);
}

TEST_F(CorpusTest, TextShorterThanTheContextSaysWhatIsNeeded) {
  const Corpus corpus = text("0123456789", Vocabulary::Kind::bytes, 0.2);
  EXPECT_NO_THROW(corpus.require_window(corpus.training(), 7, "training"));
  const std::string message =
      message_of<ConfigurationError>([&] { corpus.require_window(corpus.training(), 8, "training"); });
  EXPECT_THAT(message, HasSubstr("training part has 8 of the file's 10 tokens; a context of 8 needs at least 9"));
}

TEST_F(CorpusTest, TokenOutsideOfTheModelsVocabularyIsLocated) {
  const Corpus corpus = tokens(bytes_of<std::uint16_t>({1, 2, 300, 400}));
  EXPECT_NO_THROW(corpus.require_tokens_below(401));
  const std::string message = message_of<ConfigurationError>([&] { corpus.require_tokens_below(300); });
  EXPECT_THAT(message, HasSubstr("token 300 at position 2 is outside of the model's vocabulary of 300"));
}

}  // namespace
}  // namespace strata::host
