#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "build_paths.hpp"
#include "conformance/check.hpp"

namespace strata::host {
namespace {

std::string kinds_text(const Check& check) {
  std::vector<std::string> names;
  for (const PluginKind kind : check.kinds) names.emplace_back(to_string(kind));
  return names.empty() ? "every" : join(names, ", ");
}

std::string checks_markdown() {
  std::string text = "| check | plugins | what is promised | what a user would lose |\n|---|---|---|---|\n";
  for (const Check& check : all_checks()) {
    text += "| " + std::string(check.number) + " | " + kinds_text(check) + " | " + std::string(check.promise) + " | " +
            std::string(check.loss) + " |\n";
  }
  return text;
}

TEST(CheckTable, IsThatOfTheDocumentation) {
  std::ifstream file(source_path("docs/sdk/conformance.md"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(page, ::testing::HasSubstr(checks_markdown())) << "docs/sdk/conformance.md should have this table:\n"
                                                             << checks_markdown();
}

TEST(CheckTable, HasNumbersThatNameOneCheck) {
  std::set<std::string_view> numbers;
  for (const Check& check : all_checks()) {
    EXPECT_TRUE(numbers.insert(check.number).second) << check.number;
    EXPECT_TRUE(std::regex_match(std::string(check.number), std::regex("[A-Z][0-9]{2}"))) << check.number;
    EXPECT_TRUE(check.promise.ends_with('.') && check.loss.ends_with('.')) << check.number;
  }
}

}  // namespace
}  // namespace strata::host
