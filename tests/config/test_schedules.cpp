#include <gtest/gtest.h>

#include "config/run_configuration.hpp"
#include "config/sections.hpp"
#include "example.hpp"

namespace strata::host {
namespace {

class ScheduleExample : public testing::TestWithParam<ScheduleKind> {};

TEST_P(ScheduleExample, IsAcceptedAndWrittenBack) {
  const std::string text =
      kShortest + "[optimizer]\nlr = 1e-3\nschedule = { " + std::string(GetParam().example) + " }\n";
  const RunConfiguration c = parse_configuration(text, "c.toml");
  EXPECT_EQ(c.optimizer.schedule.kind, GetParam().name);
  EXPECT_EQ(parse_configuration(to_toml(c), "again.toml"), c) << to_toml(c);
}

TEST_P(ScheduleExample, HasOnlyKeysThatTheKindReads) {
  const OptionSchema& schema = section_declaration("optimizer.schedule").schema;
  for (const std::string_view key : GetParam().keys) EXPECT_NE(schema.find(std::string(key)), nullptr) << key;
  for (const OptionSpecification& option : schema.options()) {
    if (option.name == "kind" || GetParam().reads(option.name)) continue;
    EXPECT_EQ((" " + std::string(GetParam().example)).find(" " + option.name + " = "), std::string::npos)
        << option.name;
  }
}

TEST_P(ScheduleExample, IsDocumented) { EXPECT_TRUE(GetParam().documentation.ends_with('.')); }

INSTANTIATE_TEST_SUITE_P(All, ScheduleExample, testing::ValuesIn(schedule_kinds()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace strata::host
