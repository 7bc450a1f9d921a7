/// \file
/// Stacks of an axis along which replicas differ, and an axis that shards "batch" and other dimensions, as experts do.
/// No activation may be gathered over the former, in any order of the strategies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/check/program_check.hpp"
#include "strategy_faults.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;

/// An axis that shards "batch", and in some ops "out" instead.
Hooks sharing() {
  Hooks hooks;
  hooks.axes = [] { return std::vector<MeshAxis>{{"ep", 2}}; };
  hooks.rules = [] {
    return std::vector<Rule>{{"out", "ep", 10, Distribution::block, {}}, {"batch", "ep", 20, Distribution::block, {}}};
  };
  return hooks;
}

Hooks unsynchronized() {
  Hooks hooks;
  hooks.unsynchronized_axes = [] { return std::vector<Axis>{"dp"}; };
  return hooks;
}

Hooks reduced() {
  Hooks hooks;
  hooks.self_reduced_axes = [] { return std::vector<Axis>{"dp"}; };
  hooks.reduce_gradient = [](ReductionContext& context) {
    context.emit({.name = "sum of workers",
                  .work = Collective{.axes = {"dp"}, .id = context.communication_id("sum of workers")},
                  .inputs = {context.gradient()},
                  .outputs = {context.gradient()}});
  };
  return hooks;
}

class ReplicasApart : public StrategyFaults {
 protected:
  /// Collectives of activations, by axes.
  [[nodiscard]] std::map<std::string, int> collectives(const std::vector<Hooks>& strategies) {
    std::map<std::string, int> counts;
    const host::Compiled compiled = host::compile(request(strategies));
    for (const Task& task : compiled.programs.front().tasks) {
      for (const Instruction& each : task.instructions) {
        const auto* collective = each.as<Collective>();
        if (collective != nullptr && collective->content == BufferKind::activation) ++counts[join(collective->axes)];
      }
    }
    return counts;
  }
};

TEST_F(ReplicasApart, TheOrderOfStrategiesAddsNoCollectives) {
  for (const Hooks& outer : {Hooks{}, unsynchronized(), reduced()}) {
    const auto outside = collectives({outer, sharing()});
    EXPECT_GT(outside.at("ep"), 0);
    EXPECT_FALSE(outside.contains("dp"));
    EXPECT_EQ(collectives({sharing(), outer}), outside);
  }
}

TEST_F(ReplicasApart, RefusesAnAxisThatNestsInside) {
  for (Hooks inner : {unsynchronized(), reduced()}) {
    inner.rules = [] {
      // The axes of filtered rules nest innermost.
      return std::vector<Rule>{{"batch", "dp", 20, Distribution::block, [](const RuleTarget&) { return true; }}};
    };
    const std::string message = refusal({sharing(), inner});
    EXPECT_THAT(message, HasSubstr("strategy 2 owns mesh axis 'dp', along which ranks hold different values"));
    EXPECT_THAT(message, HasSubstr("moves activations or parameters over it: all_gather"));
  }
}

/// The rule's mutant: each communication of a forward or backward task goes over the unsynchronized axis instead of its
/// own.
TEST_F(ReplicasApart, FindsEveryCommunicationThatIsMovedToTheLooseAxis) {
  Program program = host::compile(request({unsynchronized(), sharing()})).programs.front();
  ASSERT_FALSE(host::find_replica_fault(program, {"dp"}));
  int changed = 0;
  for (Task& task : program.tasks) {
    for (Instruction& each : task.instructions) {
      auto* collective = each.as<Collective>();
      if (collective == nullptr || collective->content != BufferKind::activation) continue;
      const std::vector<Axis> own = std::exchange(collective->axes, {"dp"});
      const auto fault = host::find_replica_fault(program, {"dp"});
      ASSERT_TRUE(fault) << each.name;
      EXPECT_THAT(fault->message, HasSubstr("'" + each.name + "'"));
      collective->axes = own;
      ++changed;
    }
  }
  EXPECT_GT(changed, 0);
}

}  // namespace
}  // namespace strata::testing
