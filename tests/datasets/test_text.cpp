#include <gmock/gmock.h>

#include "data/tokenizer.hpp"
#include "open_dataset.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::map<std::string, OptionValue> options(const std::string& bytes, const std::string& tokenizer,
                                                           double validation = 0) const {
    return {{"path", folder_.file("text.txt", bytes).string()}, {"tokenizer", tokenizer}, {"validation", validation}};
  }
  [[nodiscard]] std::unique_ptr<Dataset> open(const std::string& bytes, const std::string& tokenizer,
                                              std::int64_t context, double validation = 0) const {
    return plugin_.open(options(bytes, tokenizer, validation), {{{"seq", context}}, validation > 0});
  }

  host::test::TemporaryFolder folder_;
  DatasetPlugin plugin_{"text"};
};

TEST_F(TextTest, BytesAreTokensAndTargetsTheNextOnes) {
  const auto text = open("a\xFF\nb", "bytes", 3);
  EXPECT_EQ(text->samples(DataSplit::training), 1);
  EXPECT_THAT(read_integers(*text, {}, 0, 3), ElementsAre('a', 255, '\n'));
  EXPECT_THAT(read_integers(*text, {}, 1, 3), ElementsAre(255, '\n', 'b'));
  EXPECT_EQ(text->sizes(), (DimSizes{{"seq", 3}, {"vocab", 256}}));
  EXPECT_EQ(text->vocabulary(), Vocabulary{});
  std::vector<std::int32_t> tokens(3);
  std::vector<std::int32_t> targets(3);
  const std::vector<void*> both{tokens.data(), targets.data(), nullptr};
  text->read({}, both);
  EXPECT_THAT(tokens, ElementsAre('a', 255, '\n'));
  EXPECT_THAT(targets, ElementsAre(255, '\n', 'b'));
}

TEST_F(TextTest, CharactersAreSortedCodePoints) {
  const auto text = open("b€ab", "chars", 3);
  EXPECT_EQ(text->sizes().at("vocab"), 3);
  const auto tokens = read_integers(*text, {}, 0, 3);
  EXPECT_THAT(tokens, ElementsAre(1, 2, 0));
  EXPECT_EQ(host::make_tokenizer(*text->vocabulary())->decode(tokens), "b€a");
}

TEST_F(TextTest, PositionsAreTheSameForAllSamples) {
  const auto text = open("0123456789", "bytes", 4);
  std::vector<std::int32_t> positions(4);
  text->read_common(std::vector<void*>{nullptr, nullptr, positions.data()});
  EXPECT_THAT(positions, ElementsAre(0, 1, 2, 3));
}

TEST_F(TextTest, ValidationIsTheEndInOrder) {
  const auto text = open("0123456789abcdefghij", "bytes", 3, 0.5);
  EXPECT_EQ(text->samples(DataSplit::validation), 3);  // ten tokens: three windows of three, and a target
  EXPECT_THAT(read_integers(*text, {DataSplit::validation, 0, 0, 0}, 0, 3), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(read_integers(*text, {DataSplit::validation, 0, 0, 2}, 1, 3), ElementsAre('h', 'i', 'j'));
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    for (std::int64_t i = 0; i < text->samples(DataSplit::training); ++i) {
      for (const std::int32_t target : read_integers(*text, {DataSplit::training, epoch, 7, i}, 1, 3)) {
        ASSERT_LE(target, '9') << "training sees the validation part";
      }
    }
  }
}

TEST_F(TextTest, TheLastWindowOfValidationLeavesOutTargetsThatWereRead) {
  const auto text = open("0123456789abcdefghij", "bytes", 4, 0.5);
  ASSERT_EQ(text->samples(DataSplit::validation), 3);  // nine targets: two windows of four, and one target
  EXPECT_THAT(read_integers(*text, {DataSplit::validation, 0, 0, 2}, 0, 4), ElementsAre('f', 'g', 'h', 'i'));
  EXPECT_THAT(read_integers(*text, {DataSplit::validation, 0, 0, 2}, 1, 4), ElementsAre(-1, -1, -1, 'j'));
}

TEST_F(TextTest, ATextForValidationIsReadFromItsBeginning) {
  auto given = options("banana", "chars", 0.5);
  given["validation_path"] = folder_.file("other.txt", "nab").string();
  const auto text = plugin_.open(given, {{{"seq", 2}}, true});
  EXPECT_EQ(text->samples(DataSplit::training), 2) << "`validation` takes nothing from the training text";
  EXPECT_EQ(text->samples(DataSplit::validation), 1);
  EXPECT_THAT(read_integers(*text, {DataSplit::validation, 0, 0, 0}, 0, 2), ElementsAre(2, 0));
  EXPECT_THAT(read_integers(*text, {DataSplit::validation, 0, 0, 0}, 1, 2), ElementsAre(0, 1));
  given["validation_path"] = folder_.file("unknown.txt", "naé").string();
  EXPECT_THAT(plugin_.refusal(given, {{{"seq", 2}}, true}),
              HasSubstr("validation_path: '" + (folder_.path() / "unknown.txt").string() +
                        "': byte 2 begins 'é', a character that the training text does not have"));
}

TEST_F(TextTest, FilesThatCannotBeReadAreNamed) {
  const auto path = [&](const std::string& name) { return (folder_.path() / name).string(); };
  const auto refusal = [&](const std::string& file) {
    return plugin_.refusal({{"path", file}}, {{{"seq", 4}}, false});
  };
  EXPECT_EQ(refusal(path("missing")), "path: '" + path("missing") + "': cannot be opened: No such file or directory");
  EXPECT_THAT(refusal(folder_.path().string()), HasSubstr("is not a regular file"));
  EXPECT_THAT(plugin_.refusal(options("ab\xFF", "chars"), {{{"seq", 1}}, false}),
              HasSubstr("text.txt': byte 2 begins no UTF-8 character"));
}

TEST_F(TextTest, ATextShorterThanTheContextSaysWhatIsNeeded) {
  EXPECT_EQ(plugin_.refusal(options("0123456789", "bytes", 0.2), {{{"seq", 7}}, false}), "accepted");
  EXPECT_THAT(plugin_.refusal(options("0123456789", "bytes", 0.2), {{{"seq", 8}}, false}),
              HasSubstr("the training part has 8 of the file's 10 tokens; a context of 8 needs at least 9"));
  EXPECT_THAT(plugin_.refusal(options("0123456789", "bytes", 0.2), {{{"seq", 4}}, true}),
              HasSubstr("the validation part has 2 of the file's 10 tokens; a context of 4 needs at least 5"));
}

TEST_F(TextTest, AFileThatShrinksNamesThePlace) {
  const auto text = open(std::string(1000, 'x'), "bytes", 8);
  std::filesystem::resize_file(folder_.path() / "text.txt", 100);
  EXPECT_THAT(host::test::message_of<RuntimeError>([&] {
                read_integers(*text, {DataSplit::training, 0, 1, 50}, 0, 8);
              }),
              HasSubstr("found the end of the file at byte 4"));
}

TEST_F(TextTest, TheFingerprintIsThatOfTheContent) {
  const std::string first = open("0123456789", "bytes", 3)->fingerprint();
  EXPECT_EQ(open("0123456789", "bytes", 4)->fingerprint(), first);
  EXPECT_NE(open("0123456780", "bytes", 3)->fingerprint(), first);
}

}  // namespace
}  // namespace strata::testing
