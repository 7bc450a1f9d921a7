#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "config/learning_rate.hpp"

namespace strata::host {
namespace {

constexpr auto kLog = WarmupType::logarithmic;

struct ScheduleCase {
  const char* name;
  LearningRateSchedule schedule;
  /// Steps and their learning rates.
  std::vector<std::pair<std::uint64_t, double>> rates;

  friend void PrintTo(const ScheduleCase& row, std::ostream* out) { *out << row.name; }
};

class LearningRate : public testing::TestWithParam<ScheduleCase> {};

TEST_P(LearningRate, HasTheExpectedValues) {
  for (const auto& [step, rate] : GetParam().rates) {
    EXPECT_NEAR(GetParam().schedule(step), rate, 1e-15) << "step " << step;
  }
}

/// Decays have 20 steps from the first step after a warm-up of 4 steps to the last one, step 24.
const std::vector<ScheduleCase>& cases() {
  const double quarter_cosine = 0.5 * (1 + std::sqrt(0.5));
  static const std::vector<ScheduleCase> rows = {
      {"constant",
       {{.kind = "constant", .warmup = 10, .min_lr = 0.1}, 0.5, 100},
       {{0, 0.5}, {9, 0.5}, {10, 0.5}, {99, 0.5}, {1000, 0.5}}},
      // DeepSpeed's WarmupLR(warmup_min_lr=0.1, warmup_max_lr=0.5, warmup_num_steps=4).
      {"warmup_linear",
       {{.kind = "warmup", .warmup = 4, .min_lr = 0.1}, 0.5, 100},
       {{0, 0.1}, {1, 0.2}, {3, 0.4}, {4, 0.5}, {50, 0.5}, {99, 0.5}, {1000, 0.5}}},
      {"warmup_log",  // ln 2 / ln 4 is 0.5
       {{.kind = "warmup", .warmup = 4, .warmup_type = kLog, .min_lr = 0.1}, 0.5, 100},
       {{0, 0.1}, {1, 0.3}, {3, 0.5}, {4, 0.5}, {99, 0.5}, {1000, 0.5}}},
      {"warmup_of_one_step_takes_two",
       {{.kind = "warmup", .warmup = 1, .min_lr = 0.1}, 0.5, 100},
       {{0, 0.1}, {1, 0.3}, {2, 0.5}}},
      {"warmup_of_no_steps", {{.kind = "warmup", .min_lr = 0.1}, 0.5, 100}, {{0, 0.5}, {99, 0.5}}},
      {"warmup_cosine",
       {{.kind = "warmup_cosine", .warmup = 10, .min_lr = 0.2}, 1, 110},
       {{0, 0.1},
        {4, 0.5},
        {9, 1},
        {10, 1},
        {35, 0.2 + 0.8 * quarter_cosine},
        {60, 0.6},
        {109, 0.2 + 0.4 * (1 + std::cos(0.99 * std::acos(-1.0)))},
        {110, 0.2},
        {500, 0.2}}},
      {"warmup_cosine_is_never_logarithmic",
       {{.kind = "warmup_cosine", .warmup = 10, .warmup_type = kLog}, 1, 110},
       {{0, 0.1}, {4, 0.5}, {9, 1}}},
      {"warmup_cosine_without_warmup", {{.kind = "warmup_cosine"}, 0.5, 100}, {{0, 0.5}, {50, 0.25}, {100, 0}}},
      {"cosine",
       {{.kind = "cosine", .warmup = 4, .min_lr = 0.2}, 1, 25},
       {{0, 0.25}, {1, 0.5}, {3, 1}, {4, 1}, {9, 0.2 + 0.8 * quarter_cosine}, {14, 0.6}, {24, 0.2}, {25, 0.2}}},
      {"linear",
       {{.kind = "linear", .warmup = 4, .min_lr = 0.2}, 1, 25},
       {{0, 0.25}, {1, 0.5}, {3, 1}, {4, 1}, {9, 0.8}, {14, 0.6}, {24, 0.2}, {25, 0.2}, {1000, 0.2}}},
      {"linear_log",  // ln 2 / ln 4 is 0.5
       {{.kind = "linear", .warmup = 3, .warmup_type = kLog}, 1, 14},
       {{0, 0.5}, {1, std::log(3) / std::log(4)}, {2, 1}, {3, 1}, {8, 0.5}, {13, 0}}},
      {"linear_without_warmup",
       {{.kind = "linear", .min_lr = 0.2}, 1, 21},
       {{0, 1}, {10, 0.6}, {20, 0.2}, {1000, 0.2}}},
      {"linear_of_one_step", {{.kind = "linear"}, 1, 1}, {{0, 1}, {1, 0}}},
      {"linear_of_a_shortened_run", {{.kind = "linear", .warmup = 4}, 1, 2}, {{0, 0.25}, {1, 0.5}}},
      {"polynomial",
       {{.kind = "polynomial", .warmup = 4, .min_lr = 0.2, .power = 2}, 1, 25},
       {{0, 0.25}, {3, 1}, {4, 1}, {9, 0.65}, {14, 0.4}, {24, 0.2}, {1000, 0.2}}},
      {"inverse_sqrt",
       {{.kind = "inverse_sqrt", .warmup = 4}, 1, 25},
       {{0, 0.25}, {3, 1}, {4, std::sqrt(0.8)}, {15, 0.5}, {24, 0.4}, {99, 0.2}}},
      {"inverse_sqrt_towards_min_lr",
       {{.kind = "inverse_sqrt", .warmup = 4, .min_lr = 0.2}, 1, 25},
       {{0, 0.25}, {3, 1}, {15, 0.6}, {99, 0.36}}},
      {"inverse_sqrt_without_warmup", {{.kind = "inverse_sqrt"}, 1, 25}, {{0, 1}, {3, 0.5}, {24, 0.2}}},
      {"wsd",
       {{.kind = "wsd", .warmup = 4, .min_lr = 0.2, .decay = 8}, 1, 25},
       {{0, 0.25}, {3, 1}, {4, 1}, {16, 1}, {17, 0.9}, {20, 0.6}, {23, 0.3}, {24, 0.2}, {25, 0.2}, {1000, 0.2}}},
      {"wsd_without_stable_steps",
       {{.kind = "wsd", .warmup = 5, .decay = 20}, 1, 25},
       {{4, 1}, {5, 0.95}, {14, 0.5}, {24, 0}}},
      {"points",
       {{.kind = "points", .warmup = 4, .min_lr = 0.2, .steps = {5, 10, 20}, .factors = {0.2, 1, 0}}, 0.5, 25},
       {{0, 0.1}, {5, 0.1}, {6, 0.18}, {10, 0.5}, {15, 0.25}, {20, 0}, {24, 0}, {1000, 0}}},
      {"points_of_one", {{.kind = "points", .steps = {7}, .factors = {0.5}}, 1, 25}, {{0, 0.5}, {7, 0.5}, {24, 0.5}}},
  };
  return rows;
}

INSTANTIATE_TEST_SUITE_P(All, LearningRate, testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(LearningRateKinds, HaveCases) {
  std::set<std::string> tested;
  for (const ScheduleCase& row : cases()) tested.insert(row.schedule.section.kind);
  for (const ScheduleKind& kind : schedule_kinds()) EXPECT_TRUE(tested.contains(std::string(kind.name))) << kind.name;
}

/// Schedules of `kind` with warm-ups of many lengths, none to the whole run. The values of lr and min_lr are not exact
/// in binary, so rounding errors show.
std::vector<LearningRateSchedule> schedules(const std::string& kind) {
  std::vector<LearningRateSchedule> all;
  for (const WarmupType type : {WarmupType::linear, kLog}) {
    for (std::int64_t warmup = 0; warmup < 200; warmup += 7) {
      all.push_back({{.kind = kind,
                      .warmup = warmup,
                      .warmup_type = type,
                      .min_lr = 0.1,
                      .decay = 200 - warmup,
                      .power = 0.7,
                      .steps = {0, 70, 200},
                      .factors = {0, 1, 0.1}},
                     0.3,
                     200});
    }
  }
  return all;
}

std::vector<std::string> kinds(bool only_those_that_decay) {
  std::vector<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.decays || !only_those_that_decay) names.emplace_back(kind.name);
  }
  return names;
}

class LearningRateKind : public testing::TestWithParam<std::string> {};
class LearningRateDecay : public testing::TestWithParam<std::string> {};

TEST_P(LearningRateKind, IsFromZeroToLr) {
  for (const LearningRateSchedule& schedule : schedules(GetParam())) {
    for (std::uint64_t step = 0; step < 500; ++step) {
      EXPECT_GE(schedule(step), 0) << step;
      EXPECT_LE(schedule(step), schedule.lr) << step;
    }
  }
}

TEST_P(LearningRateDecay, FollowsARiseToLr) {
  for (const LearningRateSchedule& schedule : schedules(GetParam())) {
    const auto warmup = static_cast<std::uint64_t>(schedule.section.warmup);
    if (warmup > 0) {
      EXPECT_EQ(schedule(warmup - 1), schedule.lr);
    }
    for (std::uint64_t step = 1; step < 500; ++step) {
      const double change = schedule(step) - schedule(step - 1);
      EXPECT_TRUE(step < warmup ? change > 0 : change <= 0) << step;
    }
  }
}

TEST_P(LearningRateKind, IsContinuousAcrossTheEndOfTheWarmup) {
  for (const std::int64_t warmup : {100, 1000}) {
    const LearningRateSchedule schedule{
        {.kind = GetParam(), .warmup = warmup, .decay = 1000, .steps = {0}, .factors = {1}}, 1, 5000};
    const auto at = static_cast<std::uint64_t>(warmup);
    EXPECT_NEAR(schedule(at - 1), 1, 0.011);
    EXPECT_NEAR(schedule(at), 1, 0.011);
    EXPECT_NEAR(schedule(at + 1), 1, 0.011);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LearningRateKind, testing::ValuesIn(kinds(false)),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, LearningRateDecay, testing::ValuesIn(kinds(true)),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace strata::host
