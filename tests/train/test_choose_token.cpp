#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

#include "generate/text_generation.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

std::map<std::int32_t, int> count_choices(const std::vector<double>& logits, const SamplingSettings& settings,
                                          int count) {
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < count; ++i) ++counts[choose_token(logits, settings, static_cast<std::uint64_t>(i))];
  return counts;
}

TEST(ChooseToken, TemperatureZeroTakesTheLikeliestAndTheFirstOfEqualOnes) {
  const SamplingSettings settings{.temperature = 0, .top_k = 0, .seed = 1};
  EXPECT_EQ(choose_token(std::vector<double>{1, 3, 2, 3}, settings, 0), 1);
}

TEST(ChooseToken, RefusesLogitsThatAreNotFinite) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const SamplingSettings& settings : {SamplingSettings{.temperature = 0}, {.temperature = 1}, {.top_k = 2}}) {
    for (const std::vector<double>& logits :
         {std::vector<double>{1, nan, 2}, {1, infinity, 2}, {-infinity, -infinity, -infinity}}) {
      EXPECT_THROW(static_cast<void>(choose_token(logits, settings, 0)), RuntimeError);
    }
    EXPECT_EQ(choose_token(std::vector<double>{-infinity, 1, -infinity}, settings, 0), 1);
  }
}

TEST(ChooseToken, FollowsTheProbabilities) {
  const std::vector<double> logits{std::log(1.0) + 100, std::log(2.0) + 100, std::log(5.0) + 100, -1e300};
  const auto counts = count_choices(logits, {.temperature = 1, .top_k = 0, .seed = 2}, 8000);
  // Six standard deviations of a binomial count.
  EXPECT_NEAR(counts.at(0), 1000, 180);
  EXPECT_NEAR(counts.at(1), 2000, 240);
  EXPECT_NEAR(counts.at(2), 5000, 270);
  EXPECT_FALSE(counts.contains(3));
}

TEST(ChooseToken, TemperatureSharpens) {
  const std::vector<double> logits{0, std::log(3.0)};
  const auto counts = count_choices(logits, {.temperature = 0.5, .top_k = 0, .seed = 3}, 4000);
  EXPECT_NEAR(counts.at(1), 3600, 120);  // 9 : 1
}

TEST(ChooseToken, OnlyTheLikeliestAreCandidates) {
  const std::vector<double> logits{0.5, 0.1, 0.4, 0.3, 0.2};
  const auto counts = count_choices(logits, {.temperature = 10, .top_k = 2, .seed = 4}, 500);
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_TRUE(counts.contains(0) && counts.contains(2));
}

TEST(ChooseToken, TheFewestWithTheShareAreCandidates) {
  // Probabilities 0.1, 0.4, 0.2 and 0.3.
  const std::vector<double> logits{std::log(1.0), std::log(4.0), std::log(2.0), std::log(3.0)};
  const auto candidates = [&](double share) {
    std::vector<std::int32_t> tokens;
    const SamplingSettings settings{.temperature = 1, .top_k = 0, .seed = 6, .top_p = share};
    for (const auto& [token, count] : count_choices(logits, settings, 300)) tokens.push_back(token);
    return tokens;
  };
  EXPECT_EQ(candidates(0.0), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(candidates(0.35), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(candidates(0.6), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(candidates(0.85), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(candidates(1.0).size(), 4U);
}

TEST(ChooseToken, SeedAndIndexDecide) {
  const std::vector<double> logits(50, 0.0);
  const auto sequence = [&](std::uint64_t seed) {
    std::vector<std::int32_t> tokens;
    for (std::uint64_t i = 0; i < 20; ++i)
      tokens.push_back(choose_token(logits, {.temperature = 1, .top_k = 0, .seed = seed}, i));
    return tokens;
  };
  EXPECT_EQ(sequence(5), sequence(5));
  EXPECT_NE(sequence(5), sequence(6));
}

}  // namespace
}  // namespace strata::host
