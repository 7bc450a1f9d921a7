#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "train/data/sampling.hpp"

namespace strata::host {
namespace {

class PermutationSize : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PermutationSize, VisitsEverythingOnce) {
  for (std::uint64_t key = 0; key < 5; ++key) {
    const Permutation permutation(key, GetParam());
    std::vector<bool> seen(GetParam());
    for (std::uint64_t i = 0; i < GetParam(); ++i) {
      const std::uint64_t value = permutation(i);
      ASSERT_LT(value, GetParam());
      ASSERT_FALSE(seen[value]) << "key " << key << ", index " << i;
      seen[value] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PermutationSize, ::testing::Values(1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4097));

TEST(Permutation, DependsOnItsKeyAndLooksRandom) {
  constexpr std::uint64_t kSize = 1000;
  std::vector<std::uint64_t> first(kSize);
  std::vector<std::uint64_t> second(kSize);
  for (std::uint64_t i = 0; i < kSize; ++i) {
    first[i] = Permutation(1, kSize)(i);
    second[i] = Permutation(2, kSize)(i);
  }
  std::vector<std::uint64_t> identity(kSize);
  std::iota(identity.begin(), identity.end(), 0);
  const auto agreements = [](const auto& a, const auto& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0, std::plus<>(), std::equal_to<>());
  };
  // One agreement is expected by chance. Ten have a probability of about 1e-7.
  EXPECT_LT(agreements(first, second), 10);
  EXPECT_LT(agreements(first, identity), 10);
  // Neighbours must not stay neighbours.
  int close = 0;
  for (std::uint64_t i = 1; i < kSize; ++i) close += first[i] == first[i - 1] + 1 ? 1 : 0;
  EXPECT_LT(close, 10);
}

struct Lengths {
  std::int64_t tokens;
  std::int64_t context;
};

class EpochSamplerLengths : public ::testing::TestWithParam<Lengths> {};

TEST_P(EpochSamplerLengths, EveryEpochVisitsEveryWindowOfOneGridOnce) {
  const auto [tokens, context] = GetParam();
  const EpochSampler sampler(1337, tokens, context);
  const auto windows = static_cast<std::uint64_t>(sampler.windows_per_epoch());
  ASSERT_GE(windows, 1U);
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    std::set<std::int64_t> begins;
    for (std::uint64_t i = 0; i < windows; ++i) {
      const std::int64_t begin = sampler.window_begin(epoch * windows + i);
      ASSERT_GE(begin, 0);
      ASSERT_LE(begin + context + 1, tokens) << "a window and the target of its last token lie in the text";
      begins.insert(begin);
    }
    ASSERT_EQ(begins.size(), windows);
    for (auto each = std::next(begins.begin()); each != begins.end(); ++each) {
      ASSERT_EQ(*each - *std::prev(each), context);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, EpochSamplerLengths,
                         ::testing::Values(Lengths{9, 8}, Lengths{15, 8}, Lengths{16, 8}, Lengths{17, 8},
                                           Lengths{1000, 8}, Lengths{1003, 7}, Lengths{50, 1}));

TEST(EpochSampler, GridAndOrderChangeWithTheEpochAndTheSeed) {
  const EpochSampler sampler(1, 100000, 100);
  const auto windows = static_cast<std::uint64_t>(sampler.windows_per_epoch());
  std::set<std::int64_t> shifts;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) shifts.insert(sampler.window_begin(epoch * windows) % 100);
  EXPECT_GT(shifts.size(), 10U);

  const EpochSampler other(2, 100000, 100);
  int equal = 0;
  for (std::uint64_t i = 0; i < windows; ++i) equal += sampler.window_begin(i) == other.window_begin(i) ? 1 : 0;
  EXPECT_LT(equal, 10);
}

TEST(EpochSampler, AllButAContextOfTheTextIsVisitedInAnEpoch) {
  const EpochSampler sampler(1, 1000, 16);
  EXPECT_GE((sampler.windows_per_epoch() + 2) * 16, 1000);
}

}  // namespace
}  // namespace strata::host
