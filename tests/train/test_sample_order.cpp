#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "data/data_source.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

class PermutationSize : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PermutationSize, VisitsEverythingOnce) {
  for (std::uint64_t key = 0; key < 5; ++key) {
    std::vector<bool> seen(GetParam());
    for (std::uint64_t i = 0; i < GetParam(); ++i) {
      const std::uint64_t value = random::permuted(key, GetParam(), i);
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
    first[i] = random::permuted(1, kSize, i);
    second[i] = random::permuted(2, kSize, i);
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

TEST(SampleOrder, EveryEpochVisitsEverySampleOnceInItsOwnOrder) {
  constexpr std::int64_t kSamples = 100;
  const SampleOrder order(1337, kSamples);
  std::vector<std::vector<std::int64_t>> epochs;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::int64_t> indices;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      const SamplePlace place = order(epoch * kSamples + i);
      ASSERT_EQ(place.epoch, epoch);
      indices.push_back(place.index);
    }
    std::vector<std::int64_t> sorted = indices;
    std::sort(sorted.begin(), sorted.end());
    for (std::int64_t i = 0; i < kSamples; ++i) ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
    epochs.push_back(indices);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  const SampleOrder other(1338, kSamples);
  int equal = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) equal += order(i) == other(i) ? 1 : 0;
  EXPECT_LT(equal, 10);
}

}  // namespace
}  // namespace strata::host
