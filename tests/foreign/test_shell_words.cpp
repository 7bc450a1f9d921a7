#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foreign/argument_document.hpp"
#include "foreign/shell_words.hpp"
#include "strata/error.hpp"

namespace strata::host::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const auto& command : read_shell_script(text, "run.sh").commands) {
    for (const ShellWord& word : command) words.push_back(word.text);
  }
  return words;
}

TEST(ShellWords, ReplacesVariablesAndRemovesQuotes) {
  EXPECT_THAT(words_of("A=5\nB='x y'\npython $A \"${B}\" ${C:-\"z\"} '$A' a\\ b # c"),
              ElementsAre("python", "5", "x y", "z", "$A", "a b"));
}

TEST(ShellWords, ArraysGrowAndStandInArrays) {
  EXPECT_THAT(words_of("A=(1 (2 ; 3)\nrun ${A[@]}"), ElementsAre("run", "1", "2", "3"));
  EXPECT_THAT(words_of("A=(1 \\\n 2 # not\n 3)\nA+=(4)\nB=(\"${A[@]}\" 5)\nrun ${B[@]}"),
              ElementsAre("run", "1", "2", "3", "4", "5"));
}

TEST(ShellWords, Multiplies) {
  EXPECT_THAT(words_of("N=4\nexport W=$(($N*8))\nrun $W $((N * ${N})) $((N + 1)) $(date)"),
              ElementsAre("export", "run", "32", "16", "$((N + 1))", "$(date)"));
}

TEST(ShellWords, SaysWhereAQuoteOrAnArrayBegins) {
  for (const auto& [text, place] : {std::pair("a\n b \"c", "run.sh:2:4: the quote does not end"),
                                    std::pair("a 'b", "run.sh:1:3: the quote does not end"),
                                    std::pair("A=(1\n2", "run.sh:1:3: the array does not end"),
                                    std::pair("run ${A", "run.sh:1:6: the bracket is not closed")}) {
    try {
      static_cast<void>(read_shell_script(text, "run.sh"));
      FAIL() << text;
    } catch (const ConfigurationError& error) {
      EXPECT_THAT(error.what(), HasSubstr(place));
    }
  }
}

TEST(ShellWords, VariablesThatDoubleEndInAnError) {
  std::string text = "A=(1 2)\n";
  for (int i = 0; i < 20; ++i) text += "A=(${A[@]} ${A[@]})\n";
  EXPECT_THROW(static_cast<void>(read_shell_script(text, "run.sh")), ConfigurationError);
  std::string word = "A=1\n";
  for (int i = 0; i < 20; ++i) word += "A=\"$A$A\"\n";
  EXPECT_THROW(static_cast<void>(read_shell_script(word, "run.sh")), ConfigurationError);
}

TEST(ArgumentDocument, TakesTheLastCommandThatSaysAModel) {
  const DocumentNode document = parse_arguments(
      "N=2\necho --num-layers is read\ntorchrun --nproc_per_node $N train.py --num-layers=4 --rampup 1 2 --bf16 "
      "\"--split '9,1'\"",
      "run.sh");
  EXPECT_EQ(std::get<std::int64_t>(document.at("nproc-per-node")->value), 2);
  EXPECT_EQ(std::get<std::int64_t>(document.at("num-layers")->value), 4);
  EXPECT_EQ(std::get<std::vector<double>>(document.at("rampup")->value).size(), 2U);
  EXPECT_EQ(std::get<bool>(document.at("bf16")->value), true);
  EXPECT_EQ(document.at("nproc-per-node")->place.text(), "run.sh:3:10");
  EXPECT_THROW(static_cast<void>(parse_arguments("python train.py", "run.sh")), ConfigurationError);
}

}  // namespace
}  // namespace strata::host::test
