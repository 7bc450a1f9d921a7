/// \file
/// Strategies that reduce gradients themselves, wrongly.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "strategy_faults.hpp"
#include "verify/definition.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;

/// Reduces gradients over its axis "dp".
Hooks reducing(std::function<void(ReductionContext&)> work = {}) {
  Hooks hooks;
  hooks.self_reduced_axes = [] { return std::vector<Axis>{"dp"}; };
  hooks.reduce_gradient = std::move(work);
  return hooks;
}

Instruction all_reduce(ReductionContext& context, const Axis& axis) {
  return {.name = "sum",
          .work = Collective{.axes = {axis}, .id = context.communication_id("sum")},
          .inputs = {context.gradient()},
          .outputs = {context.gradient()}};
}

TEST_F(StrategyFaults, ReducedAxesAreItsOwnAndSplitTheBatchOnly) {
  EXPECT_EQ(refusal({reducing()}), "accepted");
  Hooks other = reducing();
  other.axes = [] { return std::vector<MeshAxis>{}; };
  other.rules = [] { return std::vector<Rule>{}; };
  EXPECT_EQ(refusal({Hooks{}, other}), "strategy 2 reduces gradients over mesh axis 'dp', which is not its own");
  Hooks split = reducing();
  split.rules = [] {
    return std::vector<Rule>{{"batch", "dp", 20, Distribution::block, {}}, {"ffn", "dp", 30, Distribution::block, {}}};
  };
  EXPECT_EQ(refusal({split}),
            "strategy 1 reduces gradients over mesh axis 'dp', but dimension 'ffn' is mapped onto it; accepted: batch");
  Hooks unsynchronized = reducing();
  unsynchronized.unsynchronized_axes = unsynchronized.self_reduced_axes;
  EXPECT_EQ(refusal({unsynchronized}),
            "strategy 1 reduces gradients over mesh axis 'dp', which it also makes unsynchronized");
  Hooks storing = reducing();
  storing.storage = [] {
    ParameterStorage storage;
    storage.sharding = Sharding::states;
    storage.axes = {"dp"};
    return storage;
  };
  EXPECT_EQ(refusal({storing}),
            "strategy 1 stores parameters over mesh axis 'dp', over which a strategy reduces gradients itself");
}

TEST_F(StrategyFaults, OneStrategyReducesGradients) {
  Hooks second = reducing();
  second.axes = [] { return std::vector<MeshAxis>{{"outer", 2}}; };
  second.rules = [] { return std::vector<Rule>{{"batch", "outer", 20, Distribution::block, {}}}; };
  second.self_reduced_axes = [] { return std::vector<Axis>{"outer"}; };
  EXPECT_EQ(refusal({reducing(), second}),
            "strategy 2 reduces gradients itself, and so does strategy 1; only one strategy of a stack may");
  second.axes = [] { return std::vector<MeshAxis>{{"outer", 1}}; };
  EXPECT_EQ(refusal({reducing(), second}), "accepted") << "there is nothing to reduce over one rank";
}

TEST_F(StrategyFaults, AReductionWritesTheGradientOverItsOwnAxesInEveryStep) {
  EXPECT_EQ(refusal({reducing([](ReductionContext& context) { context.emit(all_reduce(context, "dp")); })}),
            "accepted");
  EXPECT_EQ(refusal({reducing([](ReductionContext&) {})}),
            "strategy 1 reduces the gradient of 'bucket 0' wrongly: no instruction writes the gradient");
  Hooks foreign = reducing([](ReductionContext& context) { context.emit(all_reduce(context, "other")); });
  Hooks other;
  other.axes = [] { return std::vector<MeshAxis>{{"other", 2}}; };
  other.rules = [] { return std::vector<Rule>{{"batch", "other", 20, Distribution::block, {}}}; };
  EXPECT_THAT(refusal({foreign, other}),
              HasSubstr("instruction 'sum' communicates over mesh axis 'other', which is not its own"));
  EXPECT_THAT(refusal({reducing([](ReductionContext& context) {
                Instruction instruction = all_reduce(context, "dp");
                instruction.when = {2, 1};
                context.emit(std::move(instruction));
              })}),
              HasSubstr("instruction 'sum' is for some steps only; accepted: every step"));
  EXPECT_THAT(refusal({reducing([](ReductionContext& context) {
                Instruction instruction = all_reduce(context, "dp");
                instruction.inputs = {99999};
                context.emit(std::move(instruction));
              })}),
              HasSubstr("uses buffer %99999, which is not there"));
}

TEST_F(StrategyFaults, TheScaleIsReadAfterItIsKnown) {
  EXPECT_THAT(refusal({reducing([](ReductionContext& context) {
                const BufferId temporary = context.add_flat("temporary", DType::f64, 1);
                context.emit(all_reduce(context, "dp"));
                context.emit(weighted_sum("early", {{1, context.scale()}}, temporary));
                context.emit_after(weighted_sum("late", {{1, temporary}}, context.scale()));
              })}),
              HasSubstr("before it was written"));
}

TEST_F(StrategyFaults, StatesOfGradientsHaveNewNamesAndPossibleDimensions) {
  const auto adding = [](const GradientState& first, const GradientState& second) {
    return reducing([=](ReductionContext& context) {
      context.emit(all_reduce(context, "dp"));
      static_cast<void>(context.add_state(first));
      static_cast<void>(context.add_state(second));
    });
  };
  GradientState error{.name = "error", .is_of_worker = true};
  EXPECT_THAT(refusal({adding(error, error)}), HasSubstr("has a state 'error' already"));
  GradientState factor{.name = "factor", .dims = {{{"rank", 2}}}};
  EXPECT_EQ(refusal({adding(error, factor)}),
            "strategy 1 reduces the gradient of 'bucket 0' wrongly: state 'factor' has dimensions of its own, but the "
            "bucket may hold several parameters");
  Hooks alone = adding(error, factor);
  alone.wants_own_bucket = [] { return true; };
  EXPECT_EQ(refusal({alone}), "accepted");
  factor.dims = {{{"rank", 0}}};
  alone = adding(error, factor);
  alone.wants_own_bucket = [] { return true; };
  EXPECT_THAT(refusal({alone}), HasSubstr("buffer 'factor' has a dimension of 0"));
}

// --- definitions

/// The mean gradient of two workers by a definition. The first gradient of each parameter is 1 or 3, the others are 0.
class DefinedGradients : public StrategyFaults {
 protected:
  host::ParameterValues define(const std::function<void(DefinedGradient&)>& definition, double unit) {
    Hooks hooks = reducing();
    hooks.define_gradient = definition;
    host::SimulatedReplicas replicas;
    replicas.strategies = {{"strategy 1", std::make_shared<ScriptedStrategy>(hooks)}};
    replicas.reducer = 0;
    const Program& program = compiled_.programs.front();
    std::vector<host::ParameterValues> gradients(2);
    for (const StoredParameter& parameter : program.parameters) {
      if (!host::is_updated(parameter)) continue;
      replicas.pieces[parameter.name] = {};
      for (std::size_t worker = 0; worker < 2; ++worker) {
        std::vector<double>& of_worker = gradients[worker][parameter.name];
        of_worker.resize(static_cast<std::size_t>(program.buffer(parameter.value).elements()));
        of_worker.front() = worker == 0 ? 1 : 3;
      }
    }
    host::DefinedReduction reduction(replicas, compiled_.groups, program);
    (void)reduction.run(gradients, unit);
    return reduction.run(gradients, unit);
  }

  host::Compiled compiled_ = host::compile(request({}));
};

TEST_F(DefinedGradients, AreSumsOfSharesByDefault) {
  for (const auto& [name, gradient] : define({}, 0.25)) EXPECT_EQ(gradient.front(), 1) << name;
}

TEST_F(DefinedGradients, KeepTheirElements) {
  try {
    (void)define([](DefinedGradient& gradient) { gradient.gradient.push_back(0); }, 0.25);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("strategy 1 defines a gradient of "));
  }
  EXPECT_THROW((void)define([](DefinedGradient&) { throw 42; }, 0.25), Error);
}

/// The second step sees the states of the first, unless that applied no gradient.
TEST_F(DefinedGradients, ChangeStatesOnlyInStepsThatApplyThem) {
  const auto counting = [](double gradient) {
    return [gradient](DefinedGradient& defined) {
      std::vector<double>& steps = defined.states["steps"];
      steps.resize(1);
      steps.front() += 1;
      defined.gradient.front() = gradient * steps.front();
    };
  };
  EXPECT_EQ(define(counting(1), 0.25).begin()->second.front(), 2);
  EXPECT_EQ(define(counting(1), 0).begin()->second.front(), 1) << "no token has a target";
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(define(
                [=](DefinedGradient& defined) {
                  std::vector<double>& steps = defined.states["steps"];
                  const bool is_first = steps.empty();
                  steps.resize(1);
                  defined.gradient.front() = is_first ? infinity : 1;
                },
                0.25)
                .begin()
                ->second.front(),
            infinity);
}

}  // namespace
}  // namespace strata::testing
