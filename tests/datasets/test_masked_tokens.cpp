// Datasets that hide tokens, and datasets of documents: masked, spans, pairs, sentences.

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "strata/error.hpp"
#include "token_files.hpp"

namespace strata::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Given = std::map<std::string, OptionValue>;
using Integers = std::vector<std::int32_t>;

class HiddenTokens : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::vector<std::uint16_t>& tokens, const std::string& name) const {
    return folder_.file(name, bytes_of(tokens)).string();
  }
  /// Tokens 10, 11, …, which are all different.
  [[nodiscard]] std::string counting(std::size_t count) const {
    std::vector<std::uint16_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), std::uint16_t{10});
    return file(tokens, "counting.bin");
  }

  host::test::TemporaryFolder folder_;
};

TEST_F(HiddenTokens, MaskedTokensAreTheShareAndDifferBetweenEpochs) {
  const DatasetPlugin plugin("masked");
  const std::int64_t length = 514;
  const auto data = plugin.open({{"path", counting(30000)},
                                 {"validation", 0.0},
                                 {"mask_token", std::int64_t{3}},
                                 {"first_token", std::int64_t{1}},
                                 {"last_token", std::int64_t{2}}},
                                {{{"seq", length}, {"vocab", 40000}}, false});
  double masked = 0;
  double kept = 0;
  double random = 0;
  double all = 0;
  for (std::int64_t sample = 0; sample < data->samples(DataSplit::training); ++sample) {
    const SampleKey key{.index = sample};
    const Integers tokens = read_integers(*data, key, 0, length);
    const Integers targets = read_integers(*data, key, 1, length);
    EXPECT_EQ(tokens.front(), 1);
    EXPECT_EQ(tokens.back(), 2);
    EXPECT_EQ(targets.front(), -1);
    EXPECT_EQ(targets.back(), -1);
    std::int32_t before = -1;
    for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
      const std::int32_t original = targets[i] >= 0 ? targets[i] : tokens[i];
      if (before >= 0) {
        ASSERT_EQ(original, before + 1) << "targets are what stood there";
      }
      before = original;
      ++all;
      if (targets[i] < 0) continue;
      if (tokens[i] == 3) {
        ++masked;
      } else {
        ++(tokens[i] == targets[i] ? kept : random);
      }
    }
  }
  const double hidden = masked + kept + random;
  EXPECT_NEAR(hidden / all, 0.15, 0.015);
  EXPECT_NEAR(masked / hidden, 0.8, 0.03);
  EXPECT_NEAR(random / hidden, 0.1, 0.03);
  const auto hidden_in = [&](std::uint64_t epoch) {
    Integers targets = read_integers(*data, {.epoch = epoch}, 1, length);
    for (std::int32_t& each : targets) each = each >= 0 ? 1 : 0;
    return targets;
  };
  EXPECT_EQ(hidden_in(0), hidden_in(0));
  EXPECT_NE(hidden_in(0), hidden_in(1));
}

TEST_F(HiddenTokens, SpansJoinToTheirWindow) {
  const DatasetPlugin plugin("spans");
  const DatasetRequest request{{{"seq", 32}, {"target_seq", 14}, {"vocab", 3000}}, false};
  const auto data =
      plugin.open({{"path", counting(400)}, {"validation", 0.0}, {"sentinel", std::int64_t{2999}}}, request);
  const Integers source = read_integers(*data, {}, 0, 32);
  const Integers mask = read_integers(*data, {}, 1, 32);
  const Integers decoder = read_integers(*data, {}, 2, 14);
  const Integers targets = read_integers(*data, {}, 4, 14);
  // Put each span where its sentinel is.
  Integers window;
  for (std::size_t i = 0; i < source.size() && mask[i] == 1 && source[i] != 1; ++i) {
    if (source[i] < 2900) {
      window.push_back(source[i]);
      continue;
    }
    auto at = std::find(targets.begin(), targets.end(), source[i]);
    ASSERT_NE(at, targets.end());
    for (++at; *at < 2900 && *at != 1; ++at) window.push_back(*at);
  }
  ASSERT_GT(window.size(), 25U);
  for (std::size_t i = 1; i < window.size(); ++i) EXPECT_EQ(window[i], window[i - 1] + 1);
  // The decoder reads what it has given so far.
  EXPECT_EQ(decoder.front(), 0);
  for (std::size_t i = 1; i < decoder.size(); ++i) EXPECT_EQ(decoder[i], targets[i] >= 0 ? targets[i - 1] : 0) << i;
  EXPECT_NE(read_integers(*data, {.epoch = 1}, 4, 14), targets);
}

TEST_F(HiddenTokens, PairsAreCutAndPadded) {
  const DatasetPlugin plugin("pairs");
  const Given given{{"path", file({5, 6, 1, 7, 1}, "source")},
                    {"target_path", file({8, 1, 9, 10, 11, 12, 1}, "target")},
                    {"document_end", std::int64_t{1}},
                    {"validation", 0.0}};
  const DatasetRequest request{{{"seq", 4}, {"target_seq", 3}, {"vocab", 20}}, false};
  const auto data = plugin.open(given, request);
  ASSERT_EQ(data->samples(DataSplit::training), 2);
  EXPECT_THAT(read_integers(*data, {}, 0, 4), ElementsAre(5, 6, 1, 0));
  EXPECT_THAT(read_integers(*data, {}, 1, 4), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(read_integers(*data, {}, 2, 3), ElementsAre(0, 8, 0));
  EXPECT_THAT(read_integers(*data, {}, 3, 3), ElementsAre(1, 1, 0));
  EXPECT_THAT(read_integers(*data, {}, 4, 3), ElementsAre(8, 1, -1));
  EXPECT_THAT(read_integers(*data, {.index = 1}, 4, 3), ElementsAre(9, 10, 1));
  Given other = given;
  other["target_path"] = file({8, 1}, "one");
  EXPECT_THAT(plugin.refusal(other, request), HasSubstr("found 1 documents; accepted: 2, as"));
  for (const char* token : {"end_token", "start_token"}) {
    Given outside = given;
    outside[token] = std::int64_t{20};
    EXPECT_THAT(plugin.refusal(outside, request), HasSubstr("found 20; accepted: 0 to 19"));
  }
}

TEST_F(HiddenTokens, SentencesAndTheirClasses) {
  const DatasetPlugin plugin("sentences");
  const Given given{{"path", file({5, 6, 7, 8, 1, 9, 1}, "first")},
                    {"second_path", file({11, 12, 1, 13, 1}, "second")},
                    {"labels", file({1, 0}, "labels")},
                    {"document_end", std::int64_t{1}},
                    {"first_token", std::int64_t{2}},
                    {"last_token", std::int64_t{3}},
                    {"validation", 0.0}};
  const DatasetRequest request{{{"seq", 7}, {"vocab", 20}, {"classes", 2}}, false};
  const auto data = plugin.open(given, request);
  EXPECT_THAT(read_integers(*data, {}, 0, 7), ElementsAre(2, 5, 6, 3, 11, 12, 3));
  EXPECT_THAT(read_integers(*data, {}, 1, 7), ElementsAre(0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(read_integers(*data, {.index = 1}, 2, 7), ElementsAre(1, 1, 1, 1, 1, 0, 0));
  EXPECT_THAT(read_integers(*data, {.index = 0}, 3, 1), ElementsAre(1));
  DatasetRequest one = request;
  one.sizes["classes"] = 1;
  EXPECT_THAT(plugin.refusal(given, one), HasSubstr("found class 1 for sentence 0; accepted: 0 to 0"));
  one = request;
  one.sizes["segments"] = 1;
  EXPECT_THAT(plugin.refusal(given, one), HasSubstr("the model has segments = 1"));
  Given outside = given;
  outside["last_token"] = std::int64_t{20};
  EXPECT_THAT(plugin.refusal(outside, request), HasSubstr("found 20; accepted: 0 to 19"));
}

}  // namespace
}  // namespace strata::testing
