#include <gtest/gtest.h>

#include "held_stacks.hpp"
#include "random_model.hpp"
#include "random_strategy.hpp"
#include "sanitized.hpp"
#include "stack_test.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

constexpr int kStacks = kSanitized ? 12 : 60;
constexpr std::int64_t kSequences = 16;

/// The central promise: a stack trains like one rank under any rules.
class RandomRules : public ::testing::TestWithParam<int> {
 protected:
  static void TearDownTestSuite() { stacks_.expect_enough(); }

  static inline HeldStacks stacks_;
};

TEST_P(RandomRules, TrainAsOneRank) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto strategy = random_strategy(seed);
  SCOPED_TRACE(strategy->description());
  StackRunner runner;
  host::CompileRequest request = runner.request(random_model(seed), kSequences, 1);
  request.strategies = {{"rules", strategy}};
  host::Compiled stack;
  try {
    stack = host::compile(request);
  } catch (const ConfigurationError& error) {
    // Random rules may leave an axis without work. Only this refusal is allowed, and its message must name the axis.
    ASSERT_NE(std::string(error.what()).find("shards nothing"), std::string::npos) << error.what();
    ASSERT_TRUE(std::string(error.what()).starts_with("rules adds mesh axis '")) << error.what();
    stacks_.refused();
    return;
  }
  ASSERT_EQ(communication_fault(stack), std::nullopt);
  request.strategies.clear();
  request.micro_batch = kSequences;
  const host::Compiled single = host::compile(request);
  const host::StackResult found = runner.run(stack);
  const host::StackDifference difference = host::compare(found, runner.run(single), single.graph);
  EXPECT_LT(difference.loss, 1e-10);
  EXPECT_LT(difference.gradient_norm, 1e-10);
  EXPECT_LT(difference.parameter, 1e-10) << difference.worst_parameter;
  EXPECT_EQ(found.replica_difference, 0);
  EXPECT_EQ(found.planned_peak_bytes, found.arena_peak_bytes);
  stacks_.held();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRules, ::testing::Range(0, kStacks));

}  // namespace
}  // namespace strata::testing
