#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "compiler/program/short_schedule.hpp"
#include "pipeline_strategy.hpp"
#include "strata/error.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {
namespace {

using host::test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Schedules : public ::testing::Test {
 protected:
  PipelinePlugin plugin_;
};

/// The position of each task of a stage in its order.
std::map<std::tuple<Phase, int, int>, std::size_t> positions(const std::vector<ScheduledTask>& tasks) {
  std::map<std::tuple<Phase, int, int>, std::size_t> at;
  for (std::size_t i = 0; i < tasks.size(); ++i) at[{tasks[i].phase, tasks[i].micro_batch, tasks[i].chunk}] = i;
  return at;
}

void expect_all_work_once_and_in_order(const Strategy& strategy, const PipelineCase& row, const Placement& placement,
                                       int stage) {
  const std::vector<ScheduledTask> tasks = strategy.schedule(stage, row.micro_batches);
  const auto at = positions(tasks);
  ASSERT_EQ(at.size(), tasks.size()) << "stage " << stage << " repeats a task";
  std::size_t expected = 0;
  for (int chunk = 0; chunk < row.chunks(); ++chunk) {
    if (placement.stage_of_chunk[static_cast<std::size_t>(chunk)] != stage) continue;
    for (int i = 0; i < row.micro_batches; ++i) {
      ASSERT_TRUE(at.contains({Phase::forward, i, chunk}) && at.contains({Phase::backward, i, chunk}));
      EXPECT_LT(at.at({Phase::forward, i, chunk}), at.at({Phase::backward, i, chunk}));
      expected += 2;
      if (!placement.splits_weight_gradients) continue;
      ASSERT_TRUE(at.contains({Phase::weight, i, chunk}));
      EXPECT_LT(at.at({Phase::backward, i, chunk}), at.at({Phase::weight, i, chunk}));
      ++expected;
    }
  }
  EXPECT_EQ(tasks.size(), expected) << "stage " << stage << " does what is not its own";
}

/// The program of a stage, by its schedule alone.
Program scheduled(const std::vector<ScheduledTask>& tasks, int micro_batches) {
  Program program;
  program.micro_batches = micro_batches;
  std::map<std::pair<Phase, int>, int> numbers;
  for (const ScheduledTask& each : tasks) {
    const int next = static_cast<int>(numbers.size());
    const int task = numbers.try_emplace({each.phase, each.chunk}, next).first->second;
    program.schedule.push_back({task, each.micro_batch, each.micro_batch + 1 == micro_batches});
  }
  return program;
}

/// What holds for few micro-batches holds for many, because the order is the same but for the number of rounds.
TEST_F(Schedules, RepeatThemselves) {
  for (PipelineCase row : all_pipeline_cases()) {
    if (row.micro_batches != 8 || row.schedule == "gpipe") continue;
    row.micro_batches = 50 * row.stages;
    SCOPED_TRACE(::testing::PrintToString(row));
    const auto strategy = plugin_.create_case(row);
    std::vector<Program> programs;
    for (int stage = 0; stage < row.stages; ++stage) {
      programs.push_back(scheduled(strategy->schedule(stage, row.micro_batches), row.micro_batches));
    }
    std::vector<Program> shorter = programs;
    const host::ShortSchedules guard(shorter);
    const int left = shorter.front().micro_batches;
    EXPECT_LE(left, 16 * row.stages);
    for (int stage = 0; stage < row.stages; ++stage) {
      const std::vector<TaskInstance>& found = shorter[static_cast<std::size_t>(stage)].schedule;
      const std::vector<TaskInstance> expected = scheduled(strategy->schedule(stage, left), left).schedule;
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                             [](const TaskInstance& a, const TaskInstance& b) {
                               return a.task == b.task && a.micro_batch == b.micro_batch && a.is_last == b.is_last;
                             }))
          << "stage " << stage;
    }
  }
}

/// Each stage's order is valid, and all stages together finish: the simulation throws if they wait for each other.
TEST_F(Schedules, DoAllWorkOnceInOrderAndWithoutDeadlock) {
  const std::vector<PipelineCase> rows = all_pipeline_cases();
  ASSERT_GT(rows.size(), 700U);
  for (const PipelineCase& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const auto strategy = plugin_.create_case(row);
    const Placement placement = place_one_block_a_chunk(*strategy, row);
    EXPECT_EQ(placement.splits_weight_gradients, row.schedule.starts_with("zb"));
    for (int stage = 0; stage < row.stages; ++stage) {
      expect_all_work_once_and_in_order(*strategy, row, placement, stage);
    }
    EXPECT_NO_THROW((void)equal_timeline(*strategy, row));
    if (HasFailure()) return;
  }
}

/// Idle time over working time equals the published values. For the zero-bubble schedules it is less than that of 1F1B.
TEST_F(Schedules, HaveThePublishedBubble) {
  for (const PipelineCase& row : all_pipeline_cases()) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const double bubble = equal_timeline(*plugin_.create_case(row), row).bubble_fraction();
    const double p = row.stages;
    const double m = row.micro_batches;
    if (row.schedule == "naive") {
      EXPECT_DOUBLE_EQ(bubble, p - 1);
    } else if (row.schedule == "gpipe" || row.schedule == "1f1b") {
      EXPECT_DOUBLE_EQ(bubble, (p - 1) / m);
    } else if (row.schedule == "interleaved") {
      EXPECT_DOUBLE_EQ(bubble, (p - 1) / (m * row.virtual_stages));
    } else if (p > 1) {
      EXPECT_LT(bubble, (p - 1) / m);
    }
    // ZB-H1: (p - 1)(F + B - W). ZB-V: stages start one after the other and are not idle after that.
    if (row.schedule == "zb-h1" && m >= p) {
      EXPECT_DOUBLE_EQ(bubble, (p - 1) / (3 * m));
    }
    if (row.schedule == "zbv" && m >= 2 * p - 1) {
      EXPECT_DOUBLE_EQ(bubble, (p - 1) / (6 * m));
    }
  }
}

/// The number of micro-batches (times chunks) whose forward pass is done and whose backward pass or weight gradients
/// are not equals the published one.
TEST_F(Schedules, KeepAsManyMicroBatchesAsPublished) {
  for (const PipelineCase& row : all_pipeline_cases()) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const int p = row.stages;
    const int m = row.micro_batches;
    const int v = row.virtual_stages;
    const host::Timeline timeline = equal_timeline(*plugin_.create_case(row), row);
    for (int stage = 0; stage < p; ++stage) {
      const host::StageTimeline& line = timeline.stages[static_cast<std::size_t>(stage)];
      if (row.schedule == "naive") {
        EXPECT_EQ(line.in_flight, 1);
      } else if (row.schedule == "gpipe") {
        EXPECT_EQ(line.in_flight, m);
      } else if (row.schedule == "1f1b" || (row.schedule == "interleaved" && v == 1)) {
        EXPECT_EQ(line.in_flight, std::min(m, p - stage));
      } else if (row.schedule == "interleaved") {
        EXPECT_EQ(line.in_flight, std::min(m * v, 2 * (p - 1 - stage) + (v - 1) * p + 1));
      } else if (row.schedule == "zb-h1") {
        EXPECT_EQ(line.in_flight, std::min(m, p - stage));
        EXPECT_EQ(line.kept, std::min(m, p));
      } else {
        EXPECT_LE(line.kept, std::min(2 * m, 2 * p));  // of two chunks, each half a stage
      }
      if (!place_one_block_a_chunk(*plugin_.create_case(row), row).splits_weight_gradients) {
        EXPECT_EQ(line.kept, line.in_flight);
      }
    }
  }
}

TEST_F(Schedules, OneForwardOneBackwardIsTheTextbookOrder) {
  const auto strategy = plugin_.create_case(PipelineCase{"1f1b", 3});
  std::string order;
  for (const ScheduledTask& task : strategy->schedule(0, 4)) {
    order += (task.phase == Phase::forward ? "F" : "B") + std::to_string(task.micro_batch) + " ";
  }
  EXPECT_EQ(order, "F0 F1 F2 B0 F3 B1 B2 B3 ");
}

TEST_F(Schedules, InterleavedNeedsAMultipleOfTheStages) {
  const auto strategy = plugin_.create_case(PipelineCase{"interleaved", 4, 2});
  EXPECT_THAT(message_of<ConfigurationError>([&] { (void)strategy->schedule(0, 6); }),
              AllOf(HasSubstr("found 6 micro-batches on 4 stages"), HasSubstr("accepted: a multiple of 4")));
}

}  // namespace
}  // namespace strata::testing
