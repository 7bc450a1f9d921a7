/// \file
/// Strategies that lower a node, or convert a collective, wrongly. The refusal must name the strategy and the fault.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategy_faults.hpp"

namespace strata::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// --- lowering a node

/// Lowers the first product of the model by `lowering`.
Hooks lowering(const Lowering& lowering) {
  Hooks hooks;
  hooks.lower = [=](const Node& node) { return node.name == "one" ? lowering : Lowering{}; };
  return hooks;
}

TEST_F(StrategyFaults, LoweringsAskForOperandsThatAreThereInLayoutsThatCanBe) {
  const auto refusal_of = [&](int index, const Layout& layout) {
    return refusal({lowering([=](LoweringContext& context) { context.operand(index, layout); })});
  };
  const std::string begin = "strategy 1 lowers node 'one' wrongly: ";
  EXPECT_EQ(refusal_of(0, {}), begin + "operand 0 has the dimensions [batch seq embed], its layout is of 0");
  EXPECT_EQ(refusal_of(2, {}), begin + "it has no operand 2");
  EXPECT_EQ(refusal_of(-1, {}), begin + "it has no operand -1");
  EXPECT_EQ(refusal_of(0, {{}, {"tp"}, {}}),
            begin + "the layout of operand 0 names mesh axis 'tp', which no strategy adds");
  EXPECT_EQ(refusal_of(0, {{"dp"}, {"dp"}, {}}), begin + "the layout of operand 0 uses mesh axis 'dp' twice");
}

TEST_F(StrategyFaults, LoweringsEmitInstructionsOnBuffersThatAreThere) {
  const auto refusal_of = [&](const Instruction& instruction) {
    return refusal({lowering([=](LoweringContext& context) { context.emit(instruction); })});
  };
  const std::string begin = "strategy 1 lowers node 'one' wrongly: ";
  EXPECT_EQ(refusal_of({.name = "x", .work = Compute{.op = "activation"}, .inputs = {9999}}),
            begin + "instruction 'x' uses buffer %9999, which is not there");
  EXPECT_EQ(refusal_of({.name = "x", .work = Compute{.op = "fill_zero"}, .outputs = {-1}}),
            begin + "instruction 'x' uses buffer %-1, which is not there");
  EXPECT_EQ(refusal_of({.name = "x", .work = Collective{.axes = {"dp"}}, .outputs = {0}}),
            begin + "instruction 'x' has 0 inputs and 1 outputs, not 1 and 1");
  EXPECT_EQ(refusal_of({.name = "x", .work = Collective{.axes = {"tp"}}, .inputs = {0}, .outputs = {0}}),
            begin + "instruction 'x' communicates over mesh axis 'tp', which no strategy adds");
  EXPECT_EQ(refusal({lowering([](LoweringContext& context) {
              context.add_buffer("mine", BufferKind::activation, {{"batch"}, DType::f32}, {-5});
            })}),
            begin + "buffer 'mine' has a dimension of -5");
}

TEST_F(StrategyFaults, LoweringsDefineEveryResultOnce) {
  const auto define = [](LoweringContext& context, int index, const Layout& layout) {
    const Shape local{2, 4, 8};
    const BufferId buffer = context.add_buffer("mine", BufferKind::activation, context.node().results.front(), local);
    context.define(index, buffer, layout, {});
  };
  const Layout by_batch = {{"dp"}, {}, {}};
  const std::string begin = "strategy 1 lowers node 'one' wrongly: ";
  EXPECT_EQ(refusal({lowering([](LoweringContext&) {})}), begin + "it does not say where result 0 is");
  EXPECT_EQ(refusal({lowering([&](LoweringContext& context) { define(context, 1, by_batch); })}),
            begin + "it has no result 1");
  EXPECT_EQ(refusal({lowering([&](LoweringContext& context) {
              define(context, 0, by_batch);
              define(context, 0, by_batch);
            })}),
            begin + "result 0 is defined twice");
  EXPECT_EQ(refusal({lowering([&](LoweringContext& context) { context.define(0, 100000, by_batch, {}); })}),
            begin + "result 0 is defined as buffer %100000, which is not there");
  EXPECT_EQ(refusal({lowering([&](LoweringContext& context) {
              const BufferId buffer =
                  context.add_buffer("mine", BufferKind::activation, context.node().results.front(), {2});
              context.define(0, buffer, by_batch, {});
            })}),
            begin + "buffer 'mine' has 1 sizes for the dimensions [batch seq out]");
  // A missing write is detected at the read.
  EXPECT_THAT(refusal({lowering([&](LoweringContext& context) { define(context, 0, by_batch); })}),
              HasSubstr("'mine'"));
}

// --- converting a collective

/// Converts the reductions of buckets by `conversion`.
Hooks converting(const Conversion& conversion, bool overlap) {
  Hooks hooks;
  hooks.gradient_buckets = [=] { return GradientBuckets{64, overlap}; };
  hooks.convert = [=](const PlannedCollective& planned) {
    return planned.content == BufferKind::gradient ? conversion : Conversion{};
  };
  return hooks;
}

/// Keeps the collective unchanged.
Instruction same(ConversionContext& context) {
  Instruction instruction;
  instruction.name = context.label();
  const PlannedCollective& planned = context.planned();
  instruction.work = Collective{.kind = planned.kind,
                                .reduction = planned.reduction,
                                .axes = planned.axes,
                                .id = context.communication_id(context.label())};
  instruction.inputs = {context.input()};
  instruction.outputs = {context.output()};
  return instruction;
}

/// Adds an op on the flat buffer that the collective writes.
Instruction after(ConversionContext& context, const std::string& op) {
  Instruction instruction;
  instruction.name = context.label() + "." + op;
  instruction.work = Compute{.op = op};
  instruction.inputs = {context.output()};
  instruction.outputs = {context.output()};
  return instruction;
}

TEST_F(StrategyFaults, ConversionsDoTheWorkOfTheCollective) {
  for (const bool overlap : {true, false}) {
    SCOPED_TRACE(overlap);
    const auto refusal_of = [&](const Conversion& conversion) { return refusal({converting(conversion, overlap)}); };
    EXPECT_EQ(refusal_of([](ConversionContext& context) { context.emit(same(context)); }), "accepted");
    EXPECT_THAT(refusal_of([](ConversionContext&) {}), AllOf(StartsWith("strategy 1 converts the collective 'bucket"),
                                                             HasSubstr("' wrongly: no instruction writes the output")));
    EXPECT_THAT(refusal_of([](ConversionContext& context) {
                  Instruction other = same(context);
                  other.as<Collective>()->axes = {"tp"};
                  context.emit(other);
                }),
                HasSubstr("' wrongly: it communicates over mesh axis 'tp'; the collective is over dp"));
    EXPECT_THAT(refusal_of([](ConversionContext& context) {
                  Instruction other = same(context);
                  other.inputs = {};
                  context.emit(other);
                }),
                AllOf(StartsWith("strategy 1 converts the collective 'bucket"),
                      HasSubstr("' has 0 inputs and 1 outputs, not 1 and 1")));
    EXPECT_THAT(refusal_of([](ConversionContext& context) {
                  Instruction other = same(context);
                  other.inputs = {9999};
                  context.emit(other);
                }),
                AllOf(StartsWith("strategy 1 converts the collective 'bucket"),
                      HasSubstr("' uses buffer %9999, which is not there")));
    EXPECT_THAT(refusal_of([](ConversionContext& context) { context.add_flat("part", DType::f32, -4); }),
                AllOf(StartsWith("strategy 1 converts the collective 'bucket"),
                      HasSubstr("' wrongly: buffer 'part' has a dimension of -4")));
    EXPECT_THAT(refusal_of([](ConversionContext& context) { context.emit(after(context, "fill_zero")); }),
                HasSubstr("' wrongly: it does not communicate over mesh axis 'dp'"));
    EXPECT_THAT(refusal_of([](ConversionContext& context) {
                  context.emit(same(context));
                  context.emit(after(context, "fourier"));
                }),
                AllOf(StartsWith("the device: it cannot run op 'fourier' ('bucket"), HasSubstr("no kernel")));
  }
}

}  // namespace
}  // namespace strata::testing
