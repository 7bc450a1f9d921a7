#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include "../tokenizers/small_tokenizers.hpp"
#include "odd_files.hpp"
#include "refusal.hpp"
#include "tokenizers/text_tokenizer.hpp"

namespace strata::testing {
namespace {

/// A model with the normalizer that is sentencepiece's default.
std::string sentencepiece_model(const std::string& type) {
  const host::test::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "the straße " + std::to_string(i * i) + " of the text\n";
  std::string model;
  const std::string arguments = "--input=" + folder.file("text", lines).string() + " --model_type=" + type +
                                " --vocab_size=300 --hard_vocab_limit=false --byte_fallback=true --minloglevel=2";
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, nullptr, &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

struct TokenizerExample {
  const char* name;
  std::string file;
  std::function<std::string()> bytes;

  friend void PrintTo(const TokenizerExample& example, std::ostream* out) { *out << example.name; }
};

std::vector<TokenizerExample> tokenizer_examples() {
  return {{"byte_level", "tokenizer.json", [] { return small_byte_level().dump(1); }},
          {"unigram", "tokenizer.json", [] { return small_unigram().dump(1); }},
          {"sp_bpe", "tokenizer.model", [] { return sentencepiece_model("bpe"); }},
          {"sp_unigram", "tokenizer.model", [] { return sentencepiece_model("unigram"); }}};
}

class TokenizerMutants : public ::testing::TestWithParam<TokenizerExample> {
 protected:
  void use() const {
    const auto tokenizer = host::load_tokenizer(folder_.path() / GetParam().file);
    const std::string text =
        "the 123's  straße\n\xEF\xBC\xA1\xEF\xB7\xBA e\xCC\x81 \xF0\x9F\x98\x80 <s>" + std::string(300, 'a');
    std::vector<std::int32_t> tokens;
    try {
      tokens = tokenizer->encode(text);
    } catch (const ConfigurationError&) {
      // The text needs what the mutant has lost.
      return;
    }
    EXPECT_LT(tokens.size(), 200000U);
    (void)tokenizer->decode_text(tokens, true);
    (void)tokenizer->end_of_text();
  }

  host::test::TemporaryFolder folder_;
};

TEST_P(TokenizerMutants, AreReadOrRefusedByName) {
  constexpr int kMutants = 400;
  const std::string bytes = GetParam().bytes();
  (void)folder_.file(GetParam().file, bytes);
  ASSERT_FALSE(is_refused("", [&] { use(); }));
  const bool is_json = GetParam().file == "tokenizer.json";
  Mutator mutator(5);
  int accepted = 0;
  for (int i = 0; i < kMutants; ++i) {
    std::string mutant = mutator.bytes(bytes);
    // Half of the changes give a key another value.
    if (is_json && i % 2 == 0) {
      const std::size_t colon = bytes.find(':', mutator.below(bytes.size()));
      if (colon == std::string::npos) continue;
      mutant = bytes.substr(0, colon + 1) + mutator.value() +
               bytes.substr(std::min(bytes.find_first_of(",\n", colon), bytes.size()));
    }
    (void)folder_.file(GetParam().file, mutant);
    accepted += is_refused(folder_.path().string(), [&] { use(); }) ? 0 : 1;
    if (HasFailure()) FAIL() << "mutant " << i << ": " << ::testing::PrintToString(mutant.substr(0, 2000));
  }
  EXPECT_LT(accepted, kMutants);
}

TEST_P(TokenizerMutants, OddFilesAreNamed) {
  for (const std::string& odd : odd_files(folder_)) {
    std::filesystem::remove_all(folder_.path() / GetParam().file);
    std::filesystem::create_symlink(odd, folder_.path() / GetParam().file);
    EXPECT_TRUE(is_refused(folder_.path().string(), [&] { use(); })) << odd;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerMutants, ::testing::ValuesIn(tokenizer_examples()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
