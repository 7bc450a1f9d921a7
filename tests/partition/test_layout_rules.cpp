#include <gtest/gtest.h>

#include "strata/error.hpp"
#include "strata/layout.hpp"

namespace strata::testing {
namespace {

using Axes = std::vector<Axis>;

Rule rule(const Dim& dim, const Axis& axis, int priority, RuleFilter filter = {}) {
  return {dim, axis, priority, Distribution::block, std::move(filter)};
}

const Mesh kMesh({{"dp", 2}, {"tp", 4}});
const DimSizes kSizes{{"batch", 8}, {"seq", 8}, {"heads", 6}, {"ffn", 16}};

TEST(LayoutRules, PriorityDecidesWhoTakesAnAxis) {
  const LayoutRules rules(kMesh, kSizes, {rule("seq", "tp", 90), rule("ffn", "tp", 10)});
  const IterationLayout both = rules.assign({"linear", {"batch", "seq", "ffn"}});
  EXPECT_EQ(both.at("ffn"), Axes{"tp"});
  EXPECT_EQ(both.at("seq"), Axes{});
  EXPECT_EQ(rules.assign({"add", {"batch", "seq"}}).at("seq"), Axes{"tp"});
}

TEST(LayoutRules, SkipsDimsThatTheWholeAxisSetDoesNotDivide) {
  const LayoutRules rules(kMesh, kSizes, {rule("heads", "tp", 10), rule("seq", "dp", 10), rule("seq", "tp", 20)});
  EXPECT_EQ(rules.assign({"attention", {"heads"}}).at("heads"), Axes{});
  EXPECT_EQ(rules.assign({"add", {"seq"}}).at("seq"), (Axes{"dp", "tp"}));
}

TEST(LayoutRules, ZigzagNeedsTwicePieces) {
  Rule zigzag = rule("seq", "tp", 10);
  zigzag.distribution = Distribution::zigzag;
  EXPECT_EQ(LayoutRules(kMesh, kSizes, {zigzag}).canonical({"seq"}, ""), Layout{Axes{"tp"}});
  const LayoutRules nested(kMesh, kSizes, {zigzag, rule("seq", "dp", 20)});
  EXPECT_EQ(nested.canonical({"seq"}, ""), Layout{Axes{"tp"}});  // 8 is no multiple of 2 · 2 · 4
}

TEST(LayoutRules, AxesNestInMeshOrderWhateverTheirPriority) {
  const LayoutRules rules(kMesh, kSizes, {rule("seq", "tp", 1), rule("seq", "dp", 2)});
  EXPECT_EQ(rules.canonical({"seq"}, ""), (Layout{Axes{"dp", "tp"}}));
}

TEST(LayoutRules, FilteredRulesApplyToTheirOpsAndNestInnermost) {
  const auto only_attention = [](const RuleTarget& target) { return target.op == "attention"; };
  const LayoutRules rules(Mesh({{"cp", 2}, {"tp", 4}}), {{"heads", 16}, {"seq", 8}},
                          {rule("seq", "cp", 20), rule("heads", "tp", 30), rule("heads", "cp", 10, only_attention)});
  EXPECT_EQ(rules.assign({"attention", {"seq", "heads"}}).at("heads"), (Axes{"tp", "cp"}));
  EXPECT_EQ(rules.assign({"attention", {"seq", "heads"}}).at("seq"), Axes{});
  EXPECT_EQ(rules.assign({"linear", {"seq", "heads"}}).at("seq"), Axes{"cp"});
}

TEST(LayoutRules, WholeDimsAreNotSharded) {
  const LayoutRules rules(kMesh, kSizes, {rule("ffn", "tp", 10)});
  EXPECT_EQ(rules.assign({"layer_norm", {"seq", "ffn"}}, {"ffn"}).at("ffn"), Axes{});
}

/// A rule that repeats an earlier one for all ops decides nothing, so its filter is not asked.
TEST(LayoutRules, ARepeatedRuleIsKeptOnce) {
  int asked = 0;
  const auto counts = [&](const RuleTarget&) { return ++asked > 0; };
  const LayoutRules rules(kMesh, kSizes,
                          {rule("heads", "tp", 10), rule("heads", "tp", 20, counts), rule("seq", "dp", 30, counts)});
  EXPECT_EQ(rules.canonical({"heads", "seq"}, ""), (Layout{Axes{}, Axes{"dp"}}));  // 6 heads are no multiple of 4
  EXPECT_EQ(asked, 1);
}

TEST(LayoutRules, RefusesTwoWaysToDealOneDimOverOneAxis) {
  Rule zigzag = rule("seq", "tp", 10);
  zigzag.distribution = Distribution::zigzag;
  EXPECT_THROW(LayoutRules(kMesh, kSizes, {zigzag, rule("seq", "tp", 20)}), ConfigurationError);
}

TEST(Mesh, InnermostAxisJoinsNeighbours) {
  EXPECT_EQ(kMesh.group(5, {"tp"}), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(kMesh.group(5, {"dp"}), (std::vector<int>{1, 5}));
  EXPECT_EQ(kMesh.group(5, {"tp", "dp"}), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (int rank = 0; rank < kMesh.rank_count(); ++rank) EXPECT_EQ(kMesh.rank(kMesh.coordinates(rank)), rank);
}

TEST(Mesh, RefusesRepeatedAxesAndEmptyOnes) {
  EXPECT_THROW(Mesh({{"dp", 2}, {"dp", 2}}), ConfigurationError);
  EXPECT_THROW(Mesh({{"dp", 0}}), ConfigurationError);
}

}  // namespace
}  // namespace strata::testing
