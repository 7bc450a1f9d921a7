/// \file
/// Strategies with many rules.

#include <gtest/gtest.h>

#include "data/data_source.hpp"
#include "strategy_faults.hpp"

namespace strata::testing {
namespace {

/// `count` rules that differ in their filters.
Hooks with_rules(int count) {
  Hooks hooks;
  hooks.rules = [count] {
    std::vector<Rule> rules;
    for (int i = 0; i < count; ++i) {
      rules.push_back({"batch", "dp", 20, Distribution::zigzag,
                       [i](const RuleTarget& target) { return static_cast<int>(target.dims.size()) == i; }});
    }
    return rules;
  };
  return hooks;
}

TEST(RuleLimits, AMultipleCountsAnAxisOnce) {
  const host::Stack stack = host::make_stack({{"one", std::make_shared<ScriptedStrategy>(with_rules(64))}});
  const std::map<Dim, std::int64_t> expected{{"batch", 4}};  // two ranks, twice for zigzag
  EXPECT_EQ(host::required_multiples(stack), expected);
}

TEST_F(StrategyFaults, ARuleTooManyIsRefused) {
  EXPECT_EQ(refusal({with_rules(10'001)}),
            "strategy 1 adds rules until the stack has more than 10000; accepted: at most that many");
}

}  // namespace
}  // namespace strata::testing
