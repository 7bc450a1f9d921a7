/// \file
/// Strategies that throw, or make impossible decisions. The refusal must name the strategy, the hook and the fault.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strategy_faults.hpp"

namespace strata::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A strategy without axes, next to one that splits the data.
Hooks without_axes() {
  Hooks hooks;
  hooks.axes = [] { return std::vector<MeshAxis>{}; };
  hooks.rules = [] { return std::vector<Rule>{}; };
  return hooks;
}

// --- hooks that throw

/// All hooks, each made to throw.
std::vector<std::pair<std::string, Hooks>> throwing(const std::function<void()>& fail) {
  std::vector<std::pair<std::string, Hooks>> all;
  const auto add = [&](const std::string& hook, auto Hooks::*member, auto call) {
    Hooks hooks;
    hooks.*member = std::move(call);
    all.emplace_back(hook, std::move(hooks));
  };
  add("axes", &Hooks::axes, [=] { return fail(), std::vector<MeshAxis>{}; });
  add("rules", &Hooks::rules, [=] { return fail(), std::vector<Rule>{}; });
  add("rewrite_forward", &Hooks::rewrite_forward, [=](Graph&) { fail(); });
  add("rewrite", &Hooks::rewrite, [=](Graph&) { fail(); });
  add("gradient_buckets", &Hooks::gradient_buckets, [=] { return fail(), GradientBuckets{}; });
  add("chunked_overlap", &Hooks::chunked_overlap, [=] { return fail(), ChunkedOverlap{}; });
  add("storage", &Hooks::storage, [=] { return fail(), ParameterStorage{}; });
  add("place", &Hooks::place, [=](const auto&) { return fail(), Placement{}; });
  add("lower", &Hooks::lower, [=](const Node&) { return fail(), Lowering{}; });
  add("lower", &Hooks::lower, [=](const Node&) { return Lowering([=](LoweringContext&) { fail(); }); });
  add("convert", &Hooks::convert, [=](const auto&) { return fail(), Conversion{}; });
  add("unsynchronized_axes", &Hooks::unsynchronized_axes, [=] { return fail(), std::vector<Axis>{}; });
  add("fragment", &Hooks::fragment, [=] { return fail(), 0; });
  add("work_on_bucket", &Hooks::work_on_bucket, [=](BucketContext&) { fail(); });
  add("convert", &Hooks::convert, [=](const auto&) { return Conversion([=](ConversionContext&) { fail(); }); });
  add("self_reduced_axes", &Hooks::self_reduced_axes, [=] { return fail(), std::vector<Axis>{}; });
  add("wants_own_bucket", &Hooks::wants_own_bucket, [=] { return fail(), false; });
  add("reduce_gradient", &Hooks::reduce_gradient, [=](ReductionContext&) { fail(); });
  all.back().second.self_reduced_axes = [] { return std::vector<Axis>{"dp"}; };
  return all;
}

TEST_F(StrategyFaults, WhateverAHookThrowsIsNamed) {
  for (const auto& [hook, hooks] : throwing([] { throw 42; })) {
    EXPECT_EQ(refusal({hooks}), "strategy 1: hook '" + hook + "' threw an exception of type int");
  }
  for (const auto& [hook, hooks] : throwing([] { throw std::out_of_range("too far"); })) {
    EXPECT_EQ(refusal({hooks}), "strategy 1: hook '" + hook + "' threw std::out_of_range: too far");
  }
  for (const auto& [hook, hooks] : throwing([] { throw ConfigurationError("found no sense in this"); })) {
    EXPECT_EQ(refusal({hooks}), "strategy 1: found no sense in this") << hook;
  }
  for (const auto& [hook, hooks] : throwing([] { throw OptionError("size", "found 3; accepted: 2"); })) {
    EXPECT_EQ(refusal({hooks}), "strategy 1: size: found 3; accepted: 2") << hook;
  }
}

TEST_F(StrategyFaults, AScheduleThatThrowsIsNamed) {
  Hooks pipeline;
  pipeline.place = [](const std::vector<BlockCost>& blocks) {
    return Placement{"dp", std::vector<int>(blocks.size(), 0), {0}, false};
  };
  pipeline.axes = [] { return std::vector<MeshAxis>{{"dp", 1}}; };
  pipeline.schedule = []() -> std::vector<ScheduledTask> { throw 42; };
  EXPECT_EQ(refusal({pipeline}), "strategy 1: hook 'schedule' threw an exception of type int");
  pipeline.schedule = [] { return std::vector<ScheduledTask>{{Phase::forward, 0, 0}}; };
  EXPECT_THAT(refusal({pipeline}), StartsWith("strategy 1 schedules stage 0 wrongly: it has 1 tasks of "));
}

// --- decisions that cannot be

TEST_F(StrategyFaults, ChunksAreOnStagesThatExist) {
  for (const int stage : {-1, 2, std::numeric_limits<int>::max()}) {
    Hooks pipeline;
    pipeline.place = [=](const std::vector<BlockCost>& blocks) {
      return Placement{"dp", std::vector<int>(blocks.size(), 0), {0, 1, stage}, false};
    };
    EXPECT_EQ(refusal({pipeline}), "strategy 1 places blocks wrongly: there is no stage " + std::to_string(stage));
  }
}

TEST_F(StrategyFaults, UnsynchronizedAxesAreItsOwnAndSplitTheBatchOnly) {
  Hooks unsynchronized;
  unsynchronized.unsynchronized_axes = [] { return std::vector<Axis>{"dp"}; };
  EXPECT_EQ(refusal({unsynchronized}), "accepted");
  Hooks other = without_axes();
  other.unsynchronized_axes = unsynchronized.unsynchronized_axes;
  EXPECT_EQ(refusal({Hooks{}, other}), "strategy 2 makes mesh axis 'dp' unsynchronized, which is not its own");
  unsynchronized.rules = [] {
    return std::vector<Rule>{{"batch", "dp", 20, Distribution::block, {}}, {"ffn", "dp", 30, Distribution::block, {}}};
  };
  EXPECT_EQ(refusal({unsynchronized}),
            "strategy 1 makes mesh axis 'dp' unsynchronized, but dimension 'ffn' is mapped onto it; accepted: batch");
}

TEST_F(StrategyFaults, WorkOnABucketUsesItsOwnAxesAndPossibleSteps) {
  const auto working = [](const std::function<void(BucketContext&)>& work) {
    Hooks hooks;
    hooks.work_on_bucket = work;
    return hooks;
  };
  const auto halve = [](BucketContext& context, const StepCondition& when) {
    Instruction instruction = weighted_sum("halve", {{0.5, context.values()}}, context.values());
    instruction.when = when;
    context.emit(std::move(instruction));
  };
  EXPECT_EQ(refusal({working([&](BucketContext& context) { halve(context, {3, 2}); })}), "accepted");
  EXPECT_THAT(
      refusal({working([&](BucketContext& context) {
        halve(context, {0, 0});
      })}),
      AllOf(StartsWith("strategy 1 works on 'bucket 0' wrongly: instruction 'halve' is for steps with step % 0"),
            HasSubstr("which no step fulfils")));
  Hooks sums = working([](BucketContext& context) {
    context.emit({.name = "sum",
                  .work = Collective{.axes = {"dp"}, .id = context.communication_id("sum")},
                  .inputs = {context.values()},
                  .outputs = {context.values()}});
  });
  EXPECT_EQ(refusal({sums}), "accepted");
  sums.axes = without_axes().axes;
  sums.rules = without_axes().rules;
  EXPECT_EQ(refusal({Hooks{}, sums}),
            "strategy 2 works on 'bucket 0' wrongly: instruction 'sum' communicates over mesh axis 'dp', which is not "
            "its own");
  const Hooks twice = working([](BucketContext& context) {
    for (int i = 0; i < 2; ++i) (void)context.add_state({"anchor", true, {}});
  });
  EXPECT_THAT(refusal({twice}), HasSubstr("has a state 'anchor' already"));
}

/// A temporary value of some steps is read in all of them.
TEST_F(StrategyFaults, TemporaryValuesAreReadInTheStepsThatWriteThem) {
  Hooks hooks;
  hooks.work_on_bucket = [](BucketContext& context) {
    const BufferId temporary = context.add_flat("temporary", context.dtype(), context.elements());
    Instruction write = weighted_sum("write", {{1, context.values()}}, temporary);
    write.when = {2, 1};
    context.emit(std::move(write));
    context.emit(weighted_sum("read", {{1, temporary}}, context.values()));
  };
  EXPECT_THAT(refusal({hooks}), HasSubstr("before it was written"));
}

TEST_F(StrategyFaults, PartsOfCollectivesAreAtLeastOneAndOverAnAxisThatIsThere) {
  const auto cut = [](const Axis& axis, int chunks) {
    Hooks hooks;
    hooks.chunked_overlap = [=] { return ChunkedOverlap{axis, chunks}; };
    return hooks;
  };
  EXPECT_EQ(refusal({cut("dp", 2)}), "accepted");
  for (const int chunks : {0, -3}) {
    EXPECT_EQ(refusal({cut("dp", chunks)}),
              "strategy 1 cuts collectives over 'dp' into " + std::to_string(chunks) + " parts; accepted: 1 or more");
  }
  EXPECT_EQ(refusal({cut("tp", 2)}), "strategy 1 cuts collectives over mesh axis 'tp', which no strategy adds");
  Hooks other = without_axes();
  other.chunked_overlap = [] { return ChunkedOverlap{"dp", 2}; };
  EXPECT_EQ(refusal({cut("dp", 2), other}),
            "strategy 2 cuts collectives over mesh axis 'dp' into parts, and so does strategy 1; only one strategy of "
            "a stack may");
}

TEST_F(StrategyFaults, BucketsHoldAtLeastAByteAndAgree) {
  const auto buckets = [](Hooks hooks, GradientBuckets wanted) {
    hooks.gradient_buckets = [=] { return wanted; };
    return hooks;
  };
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(refusal({buckets({}, {bytes, true})}),
              "strategy 1 reduces gradients in buckets of " + std::to_string(bytes) + " bytes; accepted: 1 or more");
  }
  EXPECT_EQ(refusal({buckets({}, {64, true}), buckets(without_axes(), {64, true})}), "accepted");
  EXPECT_EQ(refusal({buckets({}, {64, true}), buckets(without_axes(), {65, true})}),
            "strategy 2 reduces gradients in buckets of 65 bytes with overlap, and strategy 1 in buckets of 64 bytes "
            "with overlap; set the same in both");
  EXPECT_EQ(refusal({buckets({}, {64, true}), buckets(without_axes(), {64, false})}),
            "strategy 2 reduces gradients in buckets of 64 bytes without overlap, and strategy 1 in buckets of 64 "
            "bytes with overlap; set the same in both");
}

TEST_F(StrategyFaults, ParametersAreStoredOverEachAxisOnceAndGatheredAFewBlocksAhead) {
  const auto storing = [](const ParameterStorage& storage) {
    Hooks hooks;
    hooks.storage = [=] { return storage; };
    return hooks;
  };
  ParameterStorage sound;
  sound.sharding = Sharding::values;
  sound.axes = {"dp"};
  EXPECT_EQ(refusal({storing(sound)}), "accepted");
  ParameterStorage storage = sound;
  storage.axes = {"dp", "dp"};
  EXPECT_EQ(refusal({storing(storage)}), "strategy 1 stores parameters over mesh axis 'dp' twice");
  storage = sound;
  storage.secondary_axes = {"dp", "dp"};
  EXPECT_EQ(refusal({storing(storage)}), "strategy 1 stores parameters over mesh axis 'dp' twice");
  storage = sound;
  storage.values_place = MemoryPlace::host;
  for (const int prefetch : {1 << 20, 0}) {
    storage.prefetch = prefetch;
    EXPECT_EQ(refusal({storing(storage)}), "accepted");
  }
  for (const int prefetch : {std::numeric_limits<int>::max(), (1 << 20) + 1, -1}) {
    storage.prefetch = prefetch;
    EXPECT_EQ(refusal({storing(storage)}),
              "strategy 1 prefetches " + std::to_string(prefetch) + " blocks ahead; accepted: 0 to 1048576");
  }
}

TEST_F(StrategyFaults, AxesHaveNamesAndRulesNameAxesThatAreThere) {
  Hooks nameless;
  nameless.axes = [] { return std::vector<MeshAxis>{{"", 2}}; };
  EXPECT_EQ(refusal({nameless}), "strategy 1 adds a mesh axis without a name");
  const auto sized = [](int size) {
    Hooks hooks;
    hooks.axes = [=] { return std::vector<MeshAxis>{{"other", size}}; };
    return hooks;
  };
  EXPECT_EQ(refusal({Hooks{}, sized(0)}), "strategy 2: mesh axis 'other' has size 0; at least 1 is needed");
  EXPECT_EQ(refusal({Hooks{}, sized(1 << 20)}),
            "strategy 2: the mesh dp=2 other=1048576 has too many ranks; at most 1048576 are accepted");
  Hooks lost = without_axes();
  lost.rules = [] { return std::vector<Rule>{{"embed", "tp", 20, Distribution::block, {}}}; };
  EXPECT_EQ(refusal({Hooks{}, lost}), "strategy 2 maps dimension 'embed' onto mesh axis 'tp', which no strategy adds");
}

TEST_F(StrategyFaults, AFilterOfARuleThatThrowsIsNamed) {
  Hooks hooks;
  hooks.rules = [] {
    const RuleFilter filter = [](const RuleTarget& /*target*/) -> bool { throw 42; };
    return std::vector<Rule>{{"batch", "dp", 20, Distribution::block, {}},
                             {"embed", "dp", 10, Distribution::block, filter}};
  };
  EXPECT_EQ(refusal({hooks}), "strategy 1: hook 'rules' threw an exception of type int");
}

TEST_F(StrategyFaults, AxesAreAskedForOnce) {
  Hooks hooks = without_axes();
  hooks.axes = [calls = 0]() mutable -> std::vector<MeshAxis> {
    if (calls++ > 0) throw 42;
    return {{"one", 1}};
  };
  EXPECT_EQ(refusal({Hooks{}, hooks}), "accepted");
}

TEST_F(StrategyFaults, ALossScaleIsAFiniteNumber) {
  const auto scaled = [](LossScaling scaling) {
    Hooks hooks;
    hooks.rewrite_forward = [=](Graph& graph) { graph.loss_scaling = scaling; };
    return hooks;
  };
  const double nan = std::nan("");
  EXPECT_EQ(refusal({scaled({.initial = nan})}),
            "strategy 1 scales the loss with initial = nan; accepted: a finite number above 0");
  EXPECT_EQ(refusal({scaled({.initial = std::numeric_limits<double>::infinity()})}),
            "strategy 1 scales the loss with initial = inf; accepted: a finite number above 0");
  EXPECT_THAT(refusal({scaled({.initial = 0})}), HasSubstr("with initial = 0.0"));
  EXPECT_THAT(refusal({scaled({.growth = nan})}), HasSubstr("with growth = nan"));
  EXPECT_THAT(refusal({scaled({.backoff = nan})}), HasSubstr("with backoff = nan"));
  EXPECT_THAT(refusal({scaled({.interval = 0})}), HasSubstr("with interval = 0"));
  EXPECT_EQ(refusal({scaled({.initial = 8})}), "accepted");
}

TEST_F(StrategyFaults, ARewriteThatLosesTheParametersIsNamed) {
  Hooks hooks;
  hooks.rewrite_forward = [](Graph& graph) { graph.parameters.clear(); };
  EXPECT_THAT(refusal({hooks}), HasSubstr("the forward rewrite of strategy 1"));
  hooks = {};
  hooks.rewrite = [](Graph& graph) { graph.parameters.clear(); };
  EXPECT_THAT(refusal({hooks}), HasSubstr("the rewrite of strategy 1"));
}

TEST_F(StrategyFaults, ABatchThatIsTooLargeToCountIsRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  Hooks four;
  four.axes = [] { return std::vector<MeshAxis>{{"dp", 4}}; };
  host::CompileRequest wanted = request({four});
  wanted.global_batch = wanted.micro_batch = kHuge;
  try {
    static_cast<void>(host::compile(wanted));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(error.what(), "found 4611686018427387904; times 4 replicas that is too large to count");
  }
}

// --- strategies without an effect

TEST_F(StrategyFaults, AStrategyWithoutAnEffectIsReported) {
  Hooks of_one_rank;
  of_one_rank.axes = [] { return std::vector<MeshAxis>{{"one", 1}}; };
  of_one_rank.rules = [] { return std::vector<Rule>{{"batch", "one", 20, Distribution::block, {}}}; };
  Hooks renaming = without_axes();
  renaming.rewrite_forward = [](Graph& graph) { graph.parameters.front().decay = !graph.parameters.front().decay; };
  EXPECT_THAT(host::compile(request({Hooks{}, without_axes(), renaming, of_one_rank})).idle_strategies,
              ElementsAre("strategy 2", "strategy 4"));
  Hooks starting = without_axes();
  starting.rewrite_forward = [](Graph& graph) {
    graph.parameters.front().initialization = Initialization::constant(0.001);
  };
  Hooks marking = without_axes();
  marking.rewrite_forward = [](Graph& graph) { graph.parameters.front().gradient_is_zero = true; };
  EXPECT_THAT(host::compile(request({Hooks{}, starting, marking})).idle_strategies, IsEmpty());
  Hooks scaling = without_axes();
  scaling.rewrite_forward = [](Graph& graph) { graph.loss_scaling = LossScaling{.initial = 8, .interval = 10}; };
  Hooks rescaling = without_axes();
  rescaling.rewrite_forward = [](Graph& graph) { graph.loss_scaling->interval = 11; };
  EXPECT_THAT(host::compile(request({Hooks{}, scaling, rescaling})).idle_strategies, IsEmpty());
  Hooks storing = without_axes();
  storing.storage = [] {
    ParameterStorage storage;
    storage.sharding = Sharding::states;
    storage.axes = {"dp"};
    return storage;
  };
  Hooks advising = without_axes();
  advising.gradient_buckets = [] { return GradientBuckets{64, true}; };
  EXPECT_THAT(host::compile(request({Hooks{}, storing, advising})).idle_strategies, IsEmpty());
}

}  // namespace
}  // namespace strata::testing
