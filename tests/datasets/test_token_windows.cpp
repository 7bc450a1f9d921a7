#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "shared/token_windows.hpp"
#include "strata/random.hpp"

namespace strata::testing {
namespace {

using datasets::split_tokens;
using datasets::TokenSplit;
using datasets::TokenWindows;
using datasets::Window;

SampleKey training(std::uint64_t epoch, std::int64_t index, std::uint64_t seed = 1337) {
  return {DataSplit::training, epoch, seed, index};
}

struct Lengths {
  std::int64_t tokens;
  std::int64_t context;
};

class WindowsOfLengths : public ::testing::TestWithParam<Lengths> {};

TEST_P(WindowsOfLengths, EveryEpochVisitsEveryWindowOfOneGridOnce) {
  const auto [tokens, context] = GetParam();
  const TokenWindows windows({split_tokens(tokens, 0)}, context, {});
  ASSERT_GE(windows.samples(DataSplit::training), 1);
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    std::set<std::int64_t> begins;
    for (std::int64_t i = 0; i < windows.samples(DataSplit::training); ++i) {
      const std::int64_t begin = windows.find(training(epoch, i)).begin;
      ASSERT_GE(begin, 0);
      ASSERT_LE(begin + context + 1, tokens) << "a window and the target of its last token lie in the text";
      begins.insert(begin);
    }
    ASSERT_EQ(std::ssize(begins), windows.samples(DataSplit::training));
    for (auto each = std::next(begins.begin()); each != begins.end(); ++each) {
      ASSERT_EQ(*each - *std::prev(each), context);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, WindowsOfLengths,
                         ::testing::Values(Lengths{9, 8}, Lengths{15, 8}, Lengths{16, 8}, Lengths{17, 8},
                                           Lengths{1000, 8}, Lengths{1003, 7}, Lengths{50, 1}));

/// The windows of one source are these forever, so that runs can be repeated.
TEST(TokenWindowsTest, OneSourceHasTheWindowsThatItAlwaysHad) {
  constexpr std::int64_t kTokens = 1000;
  constexpr std::int64_t kContext = 16;
  constexpr std::int64_t kWindows = kTokens / kContext - 1;
  constexpr std::int64_t kShifts = std::min(kContext, kTokens - kWindows * kContext);
  const TokenWindows windows({split_tokens(kTokens, 0)}, kContext, {});
  ASSERT_EQ(windows.samples(DataSplit::training), kWindows);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const auto shift =
        static_cast<std::int64_t>(random::below(random::stream_key(11, "data shift", epoch), 0, kShifts));
    for (std::int64_t i = 0; i < kWindows; ++i) {
      ASSERT_EQ(windows.find(training(epoch, i, 11)).begin, shift + i * kContext);
    }
  }
}

TEST(TokenWindowsTest, GridsChangeWithTheEpoch) {
  const TokenWindows windows({split_tokens(100000, 0)}, 100, {});
  std::set<std::int64_t> shifts;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) shifts.insert(windows.find(training(epoch, 0)).begin % 100);
  EXPECT_GT(shifts.size(), 10U);
}

TEST(TokenWindowsTest, SourcesGiveSamplesByTheirWeights) {
  const TokenWindows windows({split_tokens(1000, 0.1), split_tokens(200, 0.1)}, 8, {1, 3});
  const std::int64_t samples = windows.samples(DataSplit::training);
  std::map<std::size_t, std::int64_t> counts;
  for (std::int64_t i = 0; i < samples; ++i) ++counts[windows.find(training(0, i)).source];
  EXPECT_EQ(samples, (900 / 8 - 1) + (180 / 8 - 1)) << "an epoch is as long as without weights";
  EXPECT_NEAR(static_cast<double>(counts[0]), static_cast<double>(samples) / 4, 1);
  EXPECT_EQ(counts[0] + counts[1], samples);
}

/// Over many epochs a source of another weight gives each of its windows equally often.
TEST(TokenWindowsTest, AWeightedSourceIsReadToItsEndBeforeItIsReadAgain) {
  const std::vector<TokenSplit> splits{split_tokens(1003, 0), split_tokens(205, 0)};
  const TokenWindows windows(splits, 8, {3, 2});
  const std::int64_t per_pass = 205 / 8 - 1;
  std::vector<std::int64_t> begins;
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
    for (std::int64_t i = 0; i < windows.samples(DataSplit::training); ++i) {
      const Window window = windows.find(training(epoch, i));
      if (window.source == 1) begins.push_back(window.begin);
    }
  }
  ASSERT_GT(std::ssize(begins), 3 * per_pass);
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t pass = 0; pass < 3; ++pass) {
    std::vector<std::int64_t> grid(begins.begin() + pass * per_pass, begins.begin() + (pass + 1) * per_pass);
    const std::int64_t shift = *std::min_element(grid.begin(), grid.end());
    std::vector<std::int64_t> order;
    for (const std::int64_t begin : grid) order.push_back((begin - shift) / 8);
    orders.insert(order);
    std::sort(grid.begin(), grid.end());
    for (std::int64_t i = 0; i < per_pass; ++i) ASSERT_EQ(grid[static_cast<std::size_t>(i)], shift + 8 * i);
  }
  EXPECT_EQ(orders.size(), 3U) << "every pass has its own order";
}

TEST(TokenWindowsTest, ASourceOfWeightZeroGivesNothing) {
  const TokenWindows windows({split_tokens(1000, 0), split_tokens(1000, 0)}, 8, {1, 0});
  for (std::int64_t i = 0; i < windows.samples(DataSplit::training); ++i) {
    ASSERT_EQ(windows.find(training(3, i)).source, 0U);
  }
}

TEST(TokenWindowsTest, ValidationIsInOrderThroughAllSources) {
  const TokenWindows windows({split_tokens(100, 0.5), split_tokens(60, 0.5)}, 10, {});
  ASSERT_EQ(windows.samples(DataSplit::validation), 5 + 3);
  std::vector<std::vector<std::int64_t>> targets(2);
  for (std::int64_t i = 0; i < 8; ++i) {
    const Window window = windows.find({DataSplit::validation, 0, 5, i});
    for (std::int64_t k = window.repeated; k < 10; ++k) targets.at(window.source).push_back(window.begin + k + 1);
  }
  for (const auto& [source, begin, end] : {std::tuple{0U, 50, 100}, std::tuple{1U, 30, 60}}) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(end - begin - 1));
    std::iota(all.begin(), all.end(), begin + 1);
    EXPECT_EQ(targets[source], all) << "every token but the first is a target once";
  }
}

TEST(TokenWindowsTest, ValidationNeedsAWindowWithATarget) {
  const auto samples = [](std::int64_t tokens) {
    return TokenWindows({{{0, 100}, {100, tokens}}}, 10, {}).samples(DataSplit::validation);
  };
  EXPECT_EQ(samples(0), 0);
  EXPECT_EQ(samples(10), 0);
  EXPECT_EQ(samples(11), 1);
  EXPECT_EQ(samples(12), 2);
  EXPECT_EQ(samples(21), 2);
  EXPECT_EQ(samples(22), 3);
}

}  // namespace
}  // namespace strata::testing
