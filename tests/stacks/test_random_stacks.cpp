#include <gtest/gtest.h>

#include "partition/held_stacks.hpp"
#include "partition/random_model.hpp"
#include "partition/random_strategy.hpp"
#include "partition/stack_test.hpp"
#include "random_choice.hpp"
#include "sanitized.hpp"
#include "stack_configuration.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

constexpr int kStacks = kSanitized ? 4 : 24;
constexpr std::int64_t kSequences = 16;

/// Ring attention and recomputation with random rules and models: grouped queries, skip edges, a second loss, tied
/// weights.
class RandomStacks : public ::testing::TestWithParam<int> {
 protected:
  static void TearDownTestSuite() { stacks_.expect_enough(); }

  host::NamedStrategy make(const std::string& plugin, const std::map<std::string, OptionValue>& given) {
    const auto& factory = plugins_.load<StrategyFactory>(plugin);
    return {plugin, factory.create(Options(factory.options(), given))};
  }

  static inline HeldStacks stacks_;
  BuiltPlugins plugins_;
};

TEST_P(RandomStacks, TrainAsOneRank) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  RandomChoice choice(seed);
  const auto rules = random_strategy(seed + 1000);
  SCOPED_TRACE(rules->description());
  StackRunner runner;
  host::CompileRequest request = runner.request(random_model(seed), kSequences, 1);
  const auto attention = choice.of<std::string>({"ring", "ring", "all_gather", "ulysses"});
  const auto balance = choice.of<std::string>({"zigzag", "none"});
  const auto policy = choice.of<std::string>({"full", "every", "selective", "none"});
  request.strategies = {
      {"rules", rules},
      make("context", {{"size", std::int64_t{2}}, {"attention", attention}, {"balance", balance}}),
      make("recompute",
           {{"policy", policy}, {"every", std::int64_t{policy == "every" ? 2 : 1}}, {"last_block", choice.flip()}})};
  SCOPED_TRACE(attention + " in " + balance + ", recompute " + policy);
  host::Compiled stack;
  try {
    stack = host::compile(request);
  } catch (const ConfigurationError& error) {
    // Random rules may leave an axis without work. Only this refusal is allowed, and its message must name the axis.
    ASSERT_NE(std::string(error.what()).find("shards nothing"), std::string::npos) << error.what();
    stacks_.refused();
    return;
  }
  ASSERT_EQ(communication_fault(stack), std::nullopt);
  request.strategies.clear();
  request.micro_batch = kSequences;
  const host::Compiled single = host::compile(request);
  const host::StackResult found = runner.run(stack);
  const host::StackDifference difference = host::compare(found, runner.run(single), single.graph);
  EXPECT_LT(difference.worst(), 1e-10) << difference.worst_parameter;
  EXPECT_EQ(found.replica_difference, 0);
  EXPECT_EQ(found.planned_peak_bytes, found.arena_peak_bytes);
  stacks_.held();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomStacks, ::testing::Range(0, kStacks));

}  // namespace
}  // namespace strata::testing
