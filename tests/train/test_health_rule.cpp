#include <gmock/gmock.h>

#include <cmath>

#include "checkpoint/checkpoint_manifest.hpp"
#include "log/run_log.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"
#include "train/health_rule.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const HealthSection kRules{.not_finite = HealthAction::skip,
                           .jump = HealthAction::rewind,
                           .loss_jump = 2,
                           .norm_jump = 3,
                           .window = 3,
                           .max_skips = 2,
                           .max_rewinds = 1};

StepRecord step(double loss, double norm = 1) { return {.step = 1, .loss = loss, .gradient_norm = norm}; }

TEST(HealthRule, ALimitIsAFactorOfTheMedianOfAFullWindow) {
  HealthRule rule(kRules);
  for (const double loss : {9.0, 4.0, 5.0}) {
    EXPECT_TRUE(std::isinf(rule.largest_loss()));
    EXPECT_FALSE(rule.judge(step(loss, loss / 10), false));
  }
  EXPECT_EQ(rule.largest_loss(), 10);
  EXPECT_EQ(rule.largest_norm(), 1.5);
  EXPECT_FALSE(rule.judge(step(3), false));
  EXPECT_EQ(rule.largest_loss(), 8) << "of 4, 5 and 3";
}

TEST(HealthRule, BadStepsDoNotEnterTheWindow) {
  HealthRule rule(kRules);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(rule.judge(step(1), false));
  const HealthState before = rule.state();
  EXPECT_THAT(rule.judge(step(2.5), true).value().reason,
              HasSubstr("the loss jumped to 2.5, which is more than 2 times 1"));
  EXPECT_THAT(rule.judge(step(1, 4), true).value().reason, HasSubstr("the gradient norm jumped to 4"));
  EXPECT_EQ(rule.state(), before);
}

TEST(HealthRule, ActionsAreTakenAFewTimesOnly) {
  HealthRule rule(kRules);
  const auto action = [&](double loss, bool is_refused) { return rule.judge(step(loss), is_refused).value().action; };
  EXPECT_EQ(action(NAN, true), HealthAction::skip);
  EXPECT_EQ(action(INFINITY, true), HealthAction::skip);
  EXPECT_EQ(action(NAN, true), HealthAction::stop);
  EXPECT_FALSE(rule.judge(step(1), false));
  EXPECT_EQ(action(NAN, true), HealthAction::skip) << "only those in a row count";
  EXPECT_EQ(action(9, true), HealthAction::rewind);
  rule.go_back({}, 4, {10, 20});
  EXPECT_EQ(action(9, true), HealthAction::stop);
  EXPECT_THAT(rule.judge(step(9), true).value().reason, HasSubstr("(health.max_rewinds)"));
}

TEST(HealthRule, ItsStateSurvivesAManifest) {
  HealthRule rule(kRules);
  for (const double loss : {0.1, 1e-300, 3.0}) EXPECT_FALSE(rule.judge(step(loss), false));
  rule.go_back(rule.state(), 4, {10, 20});
  const json stored = json::parse(health_json(rule.state()).dump());
  EXPECT_EQ(health_from_json(JsonValue(stored)), rule.state());
  HealthRule other({.loss_jump = 2, .window = 2});
  other.restore(rule.state());
  EXPECT_EQ(other.state().losses, (std::vector<double>{1e-300, 3.0})) << "a shorter window keeps the newest";
}

TEST(HealthRule, AnImpossibleStateIsRefused) {
  const json good = health_json({.losses = {1}, .norms = {2}, .left_out = {{1, 2}}});
  EXPECT_NO_THROW((void)health_from_json(JsonValue(good)));
  for (const auto& [key, value] : std::vector<std::pair<const char*, json>>{
           {"losses", json::array()}, {"skips_in_a_row", -1}, {"rewinds", 1.5}, {"left_out_samples", {{2, 1}}}}) {
    json bad = good;
    bad[key] = value;
    EXPECT_THROW((void)health_from_json(JsonValue(bad)), ConfigurationError) << key;
  }
}

// The log of a run that went back has the records of one that did not, and that of going back. A resumed run removes
// the latter if it will go back again.
TEST(HealthRule, TheLogForgetsTheStepsThatAreRepeated) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  const auto events = [&] {
    std::string found;
    std::ifstream stream(path);
    for (std::string line; std::getline(stream, line);) {
      const json record = json::parse(line);
      found += record.value("action", "step") + " " + record["step"].dump() + ", ";
    }
    return found;
  };
  TrainingLog log(path);
  for (std::uint64_t i = 1; i <= 4; ++i) log.step({.step = i});
  log.health({.step = 5, .action = HealthAction::rewind, .reason = "bad", .loss = NAN, .back_to = 2, .rewinds = 1});
  EXPECT_EQ(events(), "step 1, step 2, rewind 5, ");
  log.step({.step = 3, .skipped = true, .fault = "bad"});
  log.cut_back(3, false, 1);
  EXPECT_EQ(events(), "step 1, step 2, rewind 5, step 3, ");
  log.cut_back(2, false, 0);
  EXPECT_EQ(events(), "step 1, step 2, ");
}

}  // namespace
}  // namespace strata::host
