#include <gmock/gmock.h>

#include <numeric>

#include "data/tokenizer.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Tokenizer, BytesRoundTripEveryByte) {
  std::string text(256, '\0');
  std::iota(text.begin(), text.end(), '\0');
  const auto tokenizer = make_tokenizer({Vocabulary::Kind::bytes, {}});
  const auto tokens = tokenizer->encode(text);
  EXPECT_EQ(tokens.front(), 0);
  EXPECT_EQ(tokens.back(), 255);
  EXPECT_EQ(tokenizer->decode(tokens), text);
  EXPECT_THROW((void)tokenizer->decode(std::vector<std::int32_t>{256}), RuntimeError);
}

TEST(Tokenizer, CharactersRoundTripEveryLengthOfUtf8) {
  const std::string text = "aé€𝄞a\x7f";
  const auto tokenizer = make_tokenizer({Vocabulary::Kind::characters, {U'a', 0x7f, U'é', U'€', U'𝄞'}});
  const auto tokens = tokenizer->encode(text);
  EXPECT_THAT(tokens, ElementsAre(0, 2, 3, 4, 0, 1));
  EXPECT_EQ(tokenizer->decode(tokens), text);
}

TEST(Tokenizer, CharacterOutsideOfTheVocabularyIsNamed) {
  const auto tokenizer = make_tokenizer({Vocabulary::Kind::characters, {U'a', U'b'}});
  const std::string message = test::message_of<ConfigurationError>([&] { (void)tokenizer->encode("ab€"); });
  EXPECT_THAT(message, HasSubstr("'€' at byte 2"));
  EXPECT_THROW((void)tokenizer->decode(std::vector<std::int32_t>{2}), RuntimeError);
}

TEST(Tokenizer, NumbersRoundTrip) {
  const auto tokenizer = make_tokenizer({Vocabulary::Kind::tokens, {}});
  EXPECT_THAT(tokenizer->encode(" 50256 0,17\n"), ElementsAre(50256, 0, 17));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{50256, 0}), "50256 0");
  for (const char* bad : {"x", "1x", "-1", "99999999999"}) {
    EXPECT_THROW((void)tokenizer->encode(bad), ConfigurationError) << bad;
  }
}

class InvalidUtf8 : public ::testing::TestWithParam<const char*> {};

TEST_P(InvalidUtf8, IsRefusedWhereItBegins) {
  const std::string text = std::string("ok") + GetParam();
  const std::string message = test::message_of<ConfigurationError>([&] {
    for (std::size_t position = 0; position < text.size();) (void)next_code_point(text, position);
  });
  EXPECT_THAT(message, HasSubstr("byte 2 "));
}

INSTANTIATE_TEST_SUITE_P(Forms, InvalidUtf8,
                         ::testing::Values("\x80",              // continuation alone
                                           "\xC3",              // cut off
                                           "\xC3(",             // no continuation
                                           "\xC0\x80",          // overlong
                                           "\xE0\x9F\xBF",      // overlong
                                           "\xF0\x8F\xBF\xBF",  // overlong
                                           "\xED\xA0\x80",      // surrogate
                                           "\xF4\x90\x80\x80",  // above U+10FFFF
                                           "\xFF"));

}  // namespace
}  // namespace strata::host
