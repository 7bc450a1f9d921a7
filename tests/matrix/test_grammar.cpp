#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <set>

#include "conformance/stack_proof.hpp"
#include "matrix/random_stack.hpp"
#include "matrix/refusals.hpp"

namespace strata::testing {
namespace {

constexpr std::uint64_t kStacks = 3000;

TEST(RandomStack, IsAlwaysTheSameForANumber) {
  for (std::uint64_t number = 0; number < 100; ++number) {
    EXPECT_EQ(to_toml(random_stack(number)), to_toml(random_stack(number)));
  }
}

TEST(RandomStack, HasEveryNumberOfRanksAndEveryChoice) {
  std::set<int> ranks;
  std::set<std::string> stacks;
  std::set<std::string> lines;
  for (std::uint64_t number = 0; number < kStacks; ++number) {
    const Stack stack = random_stack(number);
    ranks.insert(stack.ranks());
    stacks.insert(to_toml(stack));
    for (std::size_t i = 0; i < stack.run.size(); ++i) {
      lines.insert(grammar().run[i].name + std::to_string(stack.run[i]));
    }
    for (const StrategyChoice& each : stack.strategies) {
      for (std::size_t i = 0; i < each.choices.size(); ++i) {
        lines.insert(each.strategy().name + each.strategy().options[i].name + std::to_string(each.choices[i]));
      }
    }
  }
  EXPECT_GT(stacks.size(), kStacks * 9 / 10);
  for (int count = 1; count <= kMostRanks; ++count) EXPECT_TRUE(ranks.contains(count)) << count;
  EXPECT_EQ(*ranks.rbegin(), kMostRanks);
  const auto expect_all = [&](const std::string& prefix, const OptionRow& option) {
    for (std::size_t choice = 0; choice < option.choices.size(); ++choice) {
      if (option.choices[choice].rare) continue;
      EXPECT_TRUE(lines.contains(prefix + option.name + std::to_string(choice))) << prefix << ' ' << option.name;
    }
  };
  for (const OptionRow& option : grammar().run) expect_all("", option);
  for (const StrategyRow& row : grammar().strategies) {
    for (const OptionRow& option : row.options) expect_all(row.name, option);
  }
}

TEST(Refusal, MustBeKnownAndHaveItsPlace) {
  const std::string message =
      "strategy 1 'tensor' adds mesh axis 'tp' of size 3, which shards nothing: found heads = 4";
  ASSERT_NE(find_refusal("s.toml", "s.toml:4:1: strategy.0: " + message), nullptr);
  EXPECT_EQ(find_refusal("s.toml", message), nullptr);
  EXPECT_EQ(find_refusal("s.toml", "s.toml: strategy.0: " + message), nullptr);
  EXPECT_EQ(find_refusal("s.toml", "s.toml:4:1: strategy.0: not possible"), nullptr);
}

/// A correct run, and runs with a single fault each.
class Evidence : public ::testing::Test {
 protected:
  Evidence() {
    program_.mesh = Mesh({{"dp", 2}});
    program_.buffers = {{.id = 0, .name = "gradient", .dtype = DType::f64, .dims = {"flat"}, .shape = {4}}};
    Instruction sum;
    sum.work = Collective{.kind = CollectiveKind::all_reduce, .axes = {"dp"}};
    sum.inputs = {0};
    sum.outputs = {0};
    program_.tasks.resize(1);
    program_.tasks.front().instructions = {sum};
    program_.schedule = {{0, 0}};
    compiled_.mesh = program_.mesh;
    compiled_.programs = {program_};
    compiled_.class_of_rank = {0, 0};
    stack_.losses = {1, 1, 1};
    stack_.planned_peak_bytes = stack_.arena_peak_bytes = {64, 64};
    stack_.planned_offload.resize(2);
    stack_.offload_peak.resize(2);
    // Four numbers of eight bytes, both ways, in each of three steps.
    traffic_.resize(2);
    for (host::TrafficByAxes& of_rank : traffic_) of_rank[{"all_reduce", {"dp"}}] = {3, 3 * 32};
  }

  [[nodiscard]] host::StackFaults all_faults() const {
    host::StackFaults found;
    host::RunEvidence evidence{compiled_, stack_, traffic_, difference_};
    if (sensitivity_) evidence.sensitivity = &*sensitivity_;
    host::find_faults(evidence, found);
    return found;
  }
  [[nodiscard]] std::vector<std::string> faults() const { return all_faults().all(); }

  Program program_;
  host::Compiled compiled_;
  host::StackResult stack_;
  std::vector<host::TrafficByAxes> traffic_;
  host::StackDifference difference_;
  std::optional<host::StackDifference> sensitivity_;
};

TEST_F(Evidence, OfASoundRunHasNoFaults) { EXPECT_THAT(faults(), ::testing::IsEmpty()); }

TEST_F(Evidence, ShowsAnotherResult) {
  difference_.gradient_norm = 2e-9;
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("the gradient norm")));
}

TEST_F(Evidence, TellsAmplifiedRoundingFromAnotherResult) {
  difference_.gradient_norm = 2e-9;
  difference_.parameter = 5e-9;
  difference_.worst_parameter = "wte.weight";
  sensitivity_.emplace();
  sensitivity_->gradient_norm = sensitivity_->parameter = 1e-9;
  const host::StackFaults found = all_faults();
  EXPECT_THAT(found.amplified,
              ::testing::ElementsAre("amplified rounding: the gradient norm differs from one rank's by 2e-09, and "
                                     "disturbing one rank's initial parameters by one unit in the last place changes "
                                     "it by 1e-09 as well"));
  EXPECT_THAT(found.all(), ::testing::ElementsAre(::testing::AllOf(::testing::HasSubstr("parameter wte.weight"),
                                                                   ::testing::HasSubstr("changes it by 1e-09 only"))));
}

TEST_F(Evidence, TakesNoResultThatIsNoNumberForRounding) {
  difference_.loss = std::numeric_limits<double>::infinity();
  sensitivity_.emplace().loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("the loss")));
}

TEST_F(Evidence, ShowsAnotherEvaluation) {
  difference_.evaluation = 3e-9;
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("the loss of an evaluation")));
}

TEST_F(Evidence, ShowsAResultThatIsNoNumber) {
  difference_.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("the loss")));
}

TEST_F(Evidence, ShowsReplicasThatDiffer) {
  stack_.replica_difference = 1e-300;
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("replicas differ")));
}

TEST_F(Evidence, ShowsMemoryThatWasNotUsed) {
  stack_.arena_peak_bytes[1] = 56;
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("rank 1 used 56 bytes of 64")));
}

TEST_F(Evidence, ShowsOffloadedMemoryThatWasNotUsed) {
  stack_.planned_offload[0].host = 8;
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("rank 0 used other memory outside")));
}

TEST_F(Evidence, ShowsBytesThatWereNotExplained) {
  traffic_[0].begin()->second.bytes_sent += 1;
  traffic_[1][{"send", {"dp"}}] = {1, 8};
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("rank 0 sent 97 bytes in 3 calls of all_reduce"),
                                               ::testing::HasSubstr("rank 1 sent 8 bytes in 1 calls of send")));
}

TEST_F(Evidence, ShowsCallsThatNeverCame) {
  traffic_[0].clear();
  EXPECT_THAT(faults(), ::testing::ElementsAre(::testing::HasSubstr("explained were 96 in 3")));
}

}  // namespace
}  // namespace strata::testing
