#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "small_tokenizers.hpp"
#include "strata/error.hpp"
#include "tokenizers/text_tokenizer.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {
namespace {

using host::test::TemporaryFolder;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A change of a tokenizer.json, and what the error says of it.
struct Refusal {
  const char* name;
  std::function<void(json& file)> change;
  const char* message;

  friend void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }
};

std::vector<Refusal> refusals() {
  const auto put = [](const char* place, const json& value) {
    return [=](json& file) { file[json::json_pointer(place)] = value; };
  };
  return {
      {"model", put("/model/type", "WordLevel"), "model.type: found \"WordLevel\"; accepted: BPE, Unigram"},
      {"dropout", put("/model/dropout", 0.1), "model.dropout: found 0.1; accepted: null or 0"},
      {"token", put("/model/vocab/t", -1), "model.vocab.t: found -1; accepted: an integer from 0"},
      {"twice", put("/model/vocab/t", 3), "accepted: numbers that differ"},
      {"gap", put("/model/vocab/t", 2000000000),
       "model.vocab.t: found 2000000000; accepted: numbers without large gaps"},
      {"merge", put("/model/merges/1", "th q"), "model.merges[1]: found \"th q\"; accepted: tokens of model.vocab"},
      {"merge_form", put("/model/merges/1", 7), "model.merges[1]: found 7; accepted: \"LEFT RIGHT\""},
      {"no_merges", [](json& file) { file["model"].erase("merges"); }, "model: has no key 'merges', which is required"},
      {"unknown", put("/model/unk_token", "?!"), "model.unk_token: found \"?!\"; accepted: a token of model.vocab"},
      {"normalizer", put("/normalizer/type", "Upper"),
       "normalizer.type: found \"Upper\"; accepted: Sequence, BertNormalizer, ByteLevel, Lowercase"},
      {"step", put("/pre_tokenizer/pretokenizers/1/type", "Bert"),
       "pre_tokenizer.pretokenizers[1].type: found \"Bert\""},
      {"behavior", put("/pre_tokenizer/pretokenizers/0/behavior", "Both"),
       "pretokenizers[0].behavior: found \"Both\"; accepted: Removed, Isolated"},
      {"pattern", put("/pre_tokenizer/pretokenizers/0/pattern/Regex", "a("),
       "pattern.Regex: found a regular expression"},
      {"recursion", put("/pre_tokenizer/pretokenizers/0/pattern/Regex", "a(?R)"), "found '(?R' at byte 1; accepted"},
      {"possessive", put("/pre_tokenizer/pretokenizers/0/pattern/Regex", "a{2}+"), "found '+' after a repetition"},
      {"decoder", put("/decoder/type", "CTC"), "decoder.type: found \"CTC\"; accepted: Sequence, BPEDecoder"},
      {"template", put("/post_processor/special_tokens", json::object()),
       "post_processor.special_tokens: has no key '<|endoftext|>'"},
      {"added", put("/added_tokens/0/id", 7), "added_tokens[0].id: found 7; accepted: the number of '<|endoftext|>'"},
      {"added_gap", put("/added_tokens/0/id", 270), "added_tokens[0].id: found 270; accepted: 259, which is the next"},
      {"option", put("/pre_tokenizer/pretokenizers/0/pattern/Regex", "a(?i)b"), "found '(?i)' behind the beginning"},
      {"hexadecimal", put("/pre_tokenizer/pretokenizers/0/pattern/Regex", R"(\x{4e)"), "found '\\x{' without its end"},
      {"no_model", [](json& file) { file.erase("model"); }, "has no key 'model'; accepted: a tokenizer.json"},
      {"chat",
       [](json& file) {
         file.erase("model");
         file["chat_template"] = "{{ messages }}";
       },
       "with a chat template, which Strata does not apply"},
  };
}

class TokenizerRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(TokenizerRefusal, NamesTheKey) {
  const TemporaryFolder folder;
  json file = small_byte_level();
  GetParam().change(file);
  const auto path = folder.file("tokenizer.json", file.dump());
  try {
    (void)host::load_tokenizer(path);
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerRefusal, ::testing::ValuesIn(refusals()),
                         [](const auto& info) { return info.param.name; });

TEST(TokenizerFiles, AFolderHasItsTokenizerAndItsEndOfText) {
  const TemporaryFolder folder;
  (void)folder.file("tokenizer.json", small_byte_level().dump());
  (void)folder.file("tokenizer_config.json", R"({"eos_token": {"content": "<|endoftext|>"}, "chat_template": "x"})");
  const auto tokenizer = host::load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->end_of_text(), 259);
  EXPECT_EQ(tokenizer->size(), 260);
  EXPECT_THAT(tokenizer->encode("the the<|endoftext|>"), ElementsAre(259, 257, 258, 259));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{259, 257, 258, 9999}), "the the");
}

/// A pattern that backtracks without end stops at its limit.
TEST(TokenizerFiles, AHostilePatternIsRefusedInBoundedTime) {
  const TemporaryFolder folder;
  json file = small_byte_level();
  file["/pre_tokenizer/pretokenizers/0/pattern/Regex"_json_pointer] = "(a|aa)+[bc]";
  const auto tokenizer = host::load_tokenizer(folder.file("tokenizer.json", file.dump()));
  EXPECT_THROW((void)tokenizer->encode(std::string(5000, 'a')), ConfigurationError);
}

TEST(TokenizerFiles, ATextThatIsNotUtf8IsRefused) {
  const TemporaryFolder folder;
  const auto tokenizer = host::load_tokenizer(folder.file("tokenizer.json", small_byte_level().dump()));
  EXPECT_THROW((void)tokenizer->encode("a\xFF"), ConfigurationError);
}

}  // namespace
}  // namespace strata::testing
