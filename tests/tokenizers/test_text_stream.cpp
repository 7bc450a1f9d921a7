#include <gtest/gtest.h>

#include "generate/text_stream.hpp"
#include "small_tokenizers.hpp"
#include "tokenizers/text_tokenizer.hpp"
#include "tokenizers/unicode.hpp"
#include "train/temporary_folder.hpp"

namespace strata::host {
namespace {

class TextStreamTest : public ::testing::TestWithParam<const char*> {
 protected:
  static bool is_bpe() { return std::string(GetParam()) == "BPE"; }
  test::TemporaryFolder folder_;
  std::unique_ptr<const TextTokenizer> tokenizer_ = load_tokenizer(
      folder_.file("tokenizer.json", (is_bpe() ? testing::small_byte_level() : testing::small_unigram()).dump()));
};

TEST_P(TextStreamTest, LettersComeWhole) {
  const std::string prompt = "the";
  const std::string text = " the é \U0001F600\u4E2D the\u00FC";
  const std::vector<std::int32_t> before = tokenizer_->encode(prompt);
  const std::vector<std::int32_t> all = tokenizer_->encode(prompt + text);
  TextStream stream(*tokenizer_, before);
  std::string streamed;
  for (std::size_t i = before.size(); i < all.size(); ++i) {
    const std::string fresh = stream.add(all[i]);
    EXPECT_FALSE(first_invalid_byte(fresh)) << i;
    EXPECT_EQ(fresh.find("\uFFFD"), std::string::npos) << i;
    streamed += fresh;
  }
  EXPECT_EQ(streamed + stream.finish(), text);
}

TEST_P(TextStreamTest, BytesThatAreNoLetterComeToo) {
  TextStream stream(*tokenizer_, {});
  std::string streamed;
  const std::int32_t byte = *tokenizer_->token_of(is_bpe() ? "\u00FF" : "<0xFF>");
  for (int i = 0; i < 6; ++i) streamed += stream.add(byte);
  EXPECT_FALSE(streamed.empty());
  streamed += stream.finish();
  EXPECT_EQ(streamed.size(), 6 * std::string("\uFFFD").size());
}

INSTANTIATE_TEST_SUITE_P(All, TextStreamTest, ::testing::Values("BPE", "Unigram"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace strata::host
