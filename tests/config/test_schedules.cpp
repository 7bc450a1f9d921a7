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
  EXPECT_NO_THROW(check_schedule_lengths(c));
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

TEST(Schedule, EveryKeyParsesBackToTheSame) {
  RunConfiguration c = parse_configuration(kShortest, "c.toml");
  c.optimizer.schedule = {"points", 3, WarmupType::logarithmic, 1e-5, 7, 2.5, {0, 0.1 + 0.2, 1e6}, {0, 1, 0.1}};
  c.optimizer.weight_decay_schedule = {"wsd", 4, WarmupType::linear, 0.25, 9, 1, {}, {}};
  EXPECT_EQ(parse_configuration(to_toml(c), "again.toml"), c) << to_toml(c);
}

TEST(Schedule, KindsIgnoreKeysThatTheyDoNotRead) {
  const auto accepts = [](const std::string& keys) {
    check_schedule_lengths(parse_configuration(kShortest + "[optimizer]\nschedule = { " + keys + " }\n", "c.toml"));
  };
  EXPECT_NO_THROW(accepts("kind = 'constant', warmup = 5000, min_lr = 1, decay = 5000"));
  EXPECT_NO_THROW(accepts("kind = 'linear', steps = [3, 2], factors = [1]"));
  EXPECT_NO_THROW(accepts("kind = 'warmup', warmup = 5000")) << "it does not decay";
  EXPECT_NO_THROW(accepts("kind = 'cosine', warmup = 1000")) << "as long as the run";
  EXPECT_NO_THROW(accepts("kind = 'wsd', warmup = 400, decay = 600"));
}

}  // namespace
}  // namespace strata::host
