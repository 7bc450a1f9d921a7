// Instructions that only some steps execute.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/check/program_check.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/program/step_variants.hpp"
#include "lifetime_sketch.hpp"
#include "random_programs.hpp"
#include "strata/error.hpp"

namespace strata::host::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Instruction in_steps(Instruction instruction, std::int64_t period, std::int64_t phase) {
  instruction.when = {period, phase};
  return instruction;
}

/// The message of the checker for one program; empty if it accepts the program.
std::string variant_refusal(const Program& program) {
  try {
    verify(program, test_ops(), "a test");
    return "";
  } catch (const VerificationError& error) {
    return error.what();
  }
}

TEST(StepVariants, AreTheDistinctSetsOfActiveInstructions) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  EXPECT_EQ(step_variants(test.program).variants.size(), 1U);
  test.push(in_steps(test.sketch.op("unary", "a", {x}, test.sketch.buffer("a", 8)), 4, 3));
  test.push(in_steps(test.sketch.op("unary", "b", {x}, test.sketch.buffer("b", 8)), 2, 1));
  const StepVariants steps = step_variants(test.program);
  EXPECT_EQ(steps.period, 4);
  ASSERT_EQ(steps.variants.size(), 3U);
  EXPECT_EQ(steps.describe(steps.variants[0]), "2 of 4 steps, such as step 0");
  EXPECT_EQ(steps.describe(steps.variants[1]), "steps with step % 4 == 1");
  EXPECT_EQ(steps.describe(steps.variants[2]), "steps with step % 4 == 3");
  EXPECT_THAT(to_string(test.program), HasSubstr(", if step % 4 == 3  # a"));
}

TEST(StepVariants, OfManyStepsAreRefused) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  test.push(in_steps(test.sketch.op("unary", "a", {x}, test.sketch.buffer("a", 8)), 1009, 0));
  test.push(in_steps(test.sketch.op("unary", "b", {x}, test.sketch.buffer("b", 8)), 1048573, 0));
  EXPECT_THROW((void)step_variants(test.program), ConfigurationError);
}

TEST(Conditions, MustBePossible) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  test.push(in_steps(test.sketch.op("unary", "a", {x}, test.sketch.buffer("a", 8)), 4, 4));
  EXPECT_THAT(variant_refusal(test.program), HasSubstr("step % 4 == 4, which no step fulfils"));
}

/// A temporary value is read in steps that have not written it.
TEST(Conditions, OfReadersIncludeThoseOfWriters) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  const BufferId y = test.sketch.buffer("y", 8);
  test.push(in_steps(test.sketch.op("unary", "written", {x}, y), 4, 3));
  test.push(in_steps(test.sketch.op("unary", "read", {y}, test.sketch.buffer("z", 8)), 4, 3));
  EXPECT_EQ(variant_refusal(test.program), "");
  test.program.tasks[0].instructions.back().when = {2, 1};
  EXPECT_THAT(variant_refusal(test.program), HasSubstr("after a test, in steps with step % 4 == 1"));
  EXPECT_THAT(variant_refusal(test.program), HasSubstr("reads %1 'y' before it was written"));
}

/// The first reader waits only in some steps, so the second has to wait in the others.
TEST(Conditions, DoNotHideCommunicationFromLaterReaders) {
  TaskSketch test;
  const BufferId x = test.loaded("x");
  test.push(test.sketch.collective(CollectiveKind::all_reduce, 1, "dp", x, x));
  test.push(in_steps(test.sketch.op("unary", "sometimes", {x}, test.sketch.buffer("y", 8)), 2, 1));
  test.push(test.sketch.op("unary", "always", {x}, test.sketch.buffer("z", 8)));
  insert_waits(test.program);
  EXPECT_EQ(variant_refusal(test.program), "");
  EXPECT_THAT(test.program.tasks[0].instructions[2].waits, ElementsAre(x));
  EXPECT_THAT(test.program.tasks[0].instructions[3].waits, ElementsAre(x));
  test.program.tasks[0].instructions[3].waits.clear();
  EXPECT_THAT(variant_refusal(test.program), HasSubstr("without waiting"));
}

/// Where the waiting instruction is left out, the communication uses its memory until the end of the step.
TEST(Conditions, ExtendLifetimesOfCommunication) {
  LifetimeSketch test;
  const BufferId x = test.loaded("x");
  test.all_reduce(x);
  (void)test.unary("y", x, {x});
  const BufferId z = test.loaded("z");
  EXPECT_EQ(test.lifetime(x), std::pair(0, 2));
  test.program.tasks[0].instructions[2].when = {2, 1};
  EXPECT_EQ(test.lifetime(x), std::pair(0, 3));
  const MemoryPlan plan = plan_memory(test.program);
  EXPECT_NE(plan.offset(x, -1), plan.offset(z, -1));
  verify_memory(test.program, test_ops(), plan);
}

/// One rank leaves out a collective that the other starts.
TEST(Conditions, AreTheSameOnAllRanksOfAGroup) {
  const auto program = [](StepCondition when) {
    TaskSketch test;
    const BufferId x = test.loaded("x");
    Instruction reduce = test.sketch.collective(CollectiveKind::all_reduce, 1, "dp", x, x);
    reduce.when = when;
    test.push(reduce);
    return test.program;
  };
  const Program often = program({2, 1});
  const Program seldom = program({4, 3});
  EXPECT_EQ(find_communication_fault({often.mesh, {&often, &often}}, {}), std::nullopt);
  const auto fault = find_communication_fault({often.mesh, {&often, &seldom}}, {});
  ASSERT_TRUE(fault);
  EXPECT_THAT(*fault, HasSubstr("in steps with step % 4 == 1: "));
}

}  // namespace
}  // namespace strata::host::test
