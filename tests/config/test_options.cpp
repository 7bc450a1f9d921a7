#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strata/error.hpp"
#include "strata/options.hpp"

namespace strata {
namespace {

using testing::HasSubstr;

const OptionSchema& schema() {
  static const OptionSchema schema = {
      {.name = "layers", .type = OptionType::integer, .default_value = 6, .minimum = 1, .maximum = 100},
      {.name = "dropout", .type = OptionType::number, .default_value = 0.0, .minimum = 0, .maximum = 1},
      {.name = "kind", .type = OptionType::word, .default_value = "block", .choices = {"block", "zigzag"}},
      {.name = "flag", .type = OptionType::boolean, .default_value = false},
      {.name = "betas", .type = OptionType::numbers, .default_value = std::vector<double>{0.5}, .minimum = 0},
      {.name = "dims", .type = OptionType::words, .default_value = std::vector<std::string>{}},
      {.name = "size", .type = OptionType::integer, .minimum = 1, .role = OptionRole::axis_size},
  };
  return schema;
}

std::string refusal(const std::string& name, OptionValue value) {
  try {
    (void)schema().checked(*schema().find(name), std::move(value));
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OptionSchema, RefusesWithWhatWasFoundAndWhatIsAccepted) {
  EXPECT_EQ(refusal("layers", "six"), "found the string \"six\"; accepted: an integer from 1 to 100");
  EXPECT_EQ(refusal("layers", 0), "found the integer 0; accepted: an integer from 1 to 100");
  EXPECT_EQ(refusal("layers", 101), "found the integer 101; accepted: an integer from 1 to 100");
  EXPECT_EQ(refusal("layers", 2.0), "found the number 2.0; accepted: an integer from 1 to 100");
  EXPECT_EQ(refusal("dropout", 1.5), "found the number 1.5; accepted: a number from 0 to 1");
  EXPECT_EQ(refusal("dropout", std::nan("")), "found the number nan; accepted: a number from 0 to 1");
  EXPECT_EQ(refusal("betas", std::vector<double>{0.1, std::numeric_limits<double>::infinity()}),
            "found the list [0.1, inf]; accepted: a list of numbers, each of at least 0");
  EXPECT_EQ(refusal("kind", "zigzac"),
            "found the string \"zigzac\"; accepted: one of \"block\", \"zigzag\"; did you mean \"zigzag\"?");
  EXPECT_EQ(refusal("flag", 1), "found the integer 1; accepted: true or false");
  EXPECT_EQ(refusal("dims", std::vector<double>{1}), "found the list [1.0]; accepted: a list of strings");
}

TEST(OptionSchema, FindsAnOptionByRoleAndType) {
  EXPECT_EQ(schema().find(OptionRole::axis_size, OptionType::integer), &schema().options().back());
  EXPECT_EQ(schema().find(OptionRole::axis_size, OptionType::word), nullptr);
  EXPECT_EQ(schema().find(OptionRole::timeout, OptionType::number), nullptr);
}

TEST(OptionSchema, AcceptsTheBoundsAndConvertsIntegers) {
  EXPECT_EQ(refusal("layers", 1), "accepted");
  EXPECT_EQ(refusal("layers", 100), "accepted");
  EXPECT_EQ(schema().checked(*schema().find("dropout"), 1), OptionValue(1.0));
  EXPECT_EQ(schema().checked(*schema().find("dims"), std::vector<double>{}), OptionValue(std::vector<std::string>{}));
}

TEST(Options, FillsInDefaultsAndOverrides) {
  const Options options(schema(), {{"size", 4}, {"dropout", 1}});
  EXPECT_EQ(options.integer("size"), 4);
  EXPECT_EQ(options.number("dropout"), 1.0);
  EXPECT_EQ(options.integer("layers"), 6);
  EXPECT_EQ(options.word("kind"), "block");
  EXPECT_FALSE(options.boolean("flag"));
  EXPECT_EQ(options.numbers("betas"), std::vector<double>{0.5});
  EXPECT_TRUE(options.words("dims").empty());
}

TEST(Options, RefusesUnknownMissingAndWrongTypes) {
  const auto message = [](const std::map<std::string, OptionValue>& given) -> std::string {
    try {
      const Options options(schema(), given);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({{"size", 1}, {"layer", 3}}), "unknown option 'layer'; did you mean 'layers'?");
  EXPECT_EQ(message({}), "option 'size' is missing; accepted: an integer of at least 1");
  EXPECT_THAT(message({{"size", true}}), HasSubstr("option 'size': found the boolean true"));
  const Options options(schema(), {{"size", 1}});
  EXPECT_THROW((void)options.word("size"), ConfigurationError);
  EXPECT_THROW((void)options.word("nothing"), ConfigurationError);
}

TEST(OptionValue, PrintsAsToml) {
  EXPECT_EQ(to_string(OptionValue(std::int64_t{3})), "3");
  EXPECT_EQ(to_string(OptionValue(3.0)), "3.0");
  EXPECT_EQ(to_string(OptionValue(1e-5)), "1e-05");
  EXPECT_EQ(to_string(OptionValue(0.1)), "0.1");
  EXPECT_EQ(to_string(OptionValue("a \"b\"\\\n\x01")), R"("a \"b\"\\\n\u0001")");
  EXPECT_EQ(to_string(OptionValue(std::vector<std::string>{"a", "b"})), R"(["a", "b"])");
}

TEST(Nearest, FindsSmallMistakesOnly) {
  const std::vector<std::string> words = {"layers", "heads", "lr", "checkpoint_every"};
  EXPECT_EQ(nearest("layer", words), "layers");
  EXPECT_EQ(nearest("haeds", words), "heads");
  EXPECT_EQ(nearest("LR", words), "lr");
  EXPECT_EQ(nearest("checkpointevery", words), "checkpoint_every");
  EXPECT_EQ(nearest("vocabulary", words), "");
  EXPECT_EQ(nearest("x", words), "");
  EXPECT_EQ(nearest("", words), "");
}

}  // namespace
}  // namespace strata
