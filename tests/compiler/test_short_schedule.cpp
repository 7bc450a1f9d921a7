#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "compiler/check/program_check.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/program/short_schedule.hpp"
#include "random_programs.hpp"
#include "strata/error.hpp"

/// \file
/// What the compiler plans and proves for a step with many micro-batches takes no more memory than for one with few,
/// and is as strict.

namespace strata::host::test {
namespace {

/// Programs of stages that run forward and backward passes in turn.
std::vector<RandomRanks> random_ranks(int micro_batches) {
  std::vector<RandomRanks> all;
  for (std::uint32_t seed = 0; all.size() < 4; ++seed) {
    RandomRanks random = make_random_ranks(seed, {.micro_batches = micro_batches, .steps = 10});
    const bool in_turn = random.stages.front().schedule[4].task == 2;
    if (!in_turn) continue;
    std::vector<int> class_of_rank;
    for (int rank = 0; rank < random.mesh.rank_count(); ++rank) class_of_rank.push_back(random.stage_of(rank));
    settle_messages(random.stages, class_of_rank);
    all.push_back(std::move(random));
  }
  return all;
}

TEST(ManyMicroBatches, NeedTheMemoryOfFew) {
  const std::vector<RandomRanks> few = random_ranks(100);
  for (const int micro_batches : {101, 102, 940}) {
    const std::vector<RandomRanks> many = random_ranks(micro_batches);
    for (std::size_t i = 0; i < few.size(); ++i) {
      for (std::size_t stage = 0; stage < few[i].stages.size(); ++stage) {
        const MemoryPlan expected = plan_memory(few[i].stages[stage]);
        const MemoryPlan plan = plan_memory(many[i].stages[stage]);
        EXPECT_EQ(plan.slots(), expected.slots()) << micro_batches;
        EXPECT_LT(plan.slots(), 20);
        // Which slot the last micro-batches get depends on their number, and the packing on that.
        const auto bytes = static_cast<double>(expected.arena_bytes);
        EXPECT_NEAR(static_cast<double>(plan.arena_bytes), bytes, 0.05 * bytes) << micro_batches;
        EXPECT_EQ(plan_refusal(many[i].stages[stage], plan), "") << micro_batches;
      }
    }
  }
}

TEST(ManyMicroBatches, MayNotShareMemoryThatOneOfThemStillNeeds) {
  for (const RandomRanks& random : random_ranks(100)) {
    const Program& program = random.stages.front();
    const MemoryPlan plan = plan_memory(program);
    ASSERT_GT(plan.slots(), 1);
    MemoryPlan too_few = plan;
    for (std::vector<std::int64_t>& row : too_few.offsets) row.pop_back();
    EXPECT_NE(plan_refusal(program, too_few), "");
    MemoryPlan same = plan;
    for (std::vector<std::int64_t>& row : same.offsets) row[2] = row[1];
    EXPECT_NE(plan_refusal(program, same), "");
  }
}

/// Runs that are not as those of the other rounds are looked at.
TEST(ManyMicroBatches, AreAllLookedAtIfOneIsInAnotherOrder) {
  for (RandomRanks& random : random_ranks(100)) {
    Program& program = random.stages.front();
    EXPECT_GT(superfluous_micro_batches({&program}), 50);
    verify(program, test_ops(), "a test");
    std::vector<TaskInstance>& schedule = program.schedule;
    const auto run = [&](int task, int micro_batch) {
      return std::find_if(schedule.begin(), schedule.end(), [&](const TaskInstance& each) {
        return each.task == task && each.micro_batch == micro_batch;
      });
    };
    std::iter_swap(run(1, 50), run(2, 50));  // backward before forward
    EXPECT_THROW(verify(program, test_ops(), "a test"), VerificationError);
    EXPECT_NE(find_communication_fault(random.ranks(), {}), std::nullopt);
  }
}

/// Runs of tasks by name: F is a forward pass, B a backward pass. The first micro-batch is 0.
Program scheduled(const std::vector<TaskInstance>& schedule, int micro_batches) {
  Program program;
  program.micro_batches = micro_batches;
  program.schedule = schedule;
  return program;
}

/// A task that comes to one micro-batch long before or after its turn is not in the rounds alone.
TEST(ManyMicroBatches, AreNotLeftOutBetweenRunsThatBelongTogether) {
  constexpr int kCount = 100;
  std::vector<TaskInstance> late;
  for (int i = 0; i < kCount; ++i) {
    late.push_back({0, i, false});
    if (i > 0) late.push_back({1, i, false});
  }
  late.push_back({1, 0, true});
  const Program straggler = scheduled(late, kCount);
  EXPECT_EQ(superfluous_micro_batches({&straggler}), 0);

  std::vector<TaskInstance> phases;
  for (const int task : {0, 1}) {
    for (int i = 0; i < kCount; ++i) phases.push_back({task, i, false});
  }
  const Program all_at_once = scheduled(phases, kCount);
  EXPECT_EQ(superfluous_micro_batches({&all_at_once}), 0);
}

TEST(ManyMicroBatches, AreLeftOutOfAllProgramsAlike) {
  std::vector<TaskInstance> singles;
  std::vector<TaskInstance> pairs;
  for (int i = 0; i < 90; i += 3) {
    for (int k = 0; k < 3; ++k) singles.push_back({0, i + k, i + k == 89});
    for (const int k : {2, 0, 1}) pairs.push_back({0, i + k, i + k == 88});
  }
  const Program first = scheduled(singles, 90);
  const Program second = scheduled(pairs, 90);
  const int superfluous = superfluous_micro_batches({&first, &second}, 2);
  EXPECT_GT(superfluous, 50);
  EXPECT_EQ(superfluous % 6, 0) << "rounds of one and of three, and a multiple of two";
  const Program shorter = shortened(second, superfluous);
  EXPECT_EQ(shorter.micro_batches, 90 - superfluous);
  std::set<int> left;
  for (const TaskInstance& each : shorter.schedule) left.insert(each.micro_batch);
  EXPECT_EQ(std::ssize(left), shorter.micro_batches);
  EXPECT_EQ(std::pair(*left.begin(), *left.rbegin()), std::pair(0, shorter.micro_batches - 1));
}

}  // namespace
}  // namespace strata::host::test
