#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "reports/timeline.hpp"
#include "simulate/simulation.hpp"
#include "simulated_cluster.hpp"

namespace strata::testing {
namespace {

/// Durations of a task; forward and backward are those of one chunk.
using TaskSeconds = double (*)(const Task&);

/// The kernel in which a task spends its time: the last one before it sends, so that nothing leaves before.
std::optional<std::size_t> busy_kernel(const Task& task) {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < task.instructions.size(); ++i) {
    if (task.instructions[i].is<Send>() && last) return last;
    if (task.instructions[i].is<Compute>()) last = i;
  }
  return last;
}

std::vector<host::TimedProgram> timed(const host::Compiled& compiled, TaskSeconds seconds) {
  std::vector<host::TimedProgram> all;
  for (const Program& program : compiled.programs) {
    host::TimedProgram& one = all.emplace_back();
    one.program = &program;
    for (const Task& task : program.tasks) {
      one.tasks.emplace_back(task.instructions.size());
      if (const auto kernel = busy_kernel(task)) one.tasks.back()[*kernel].seconds = seconds(task);
    }
  }
  return all;
}

double bubble(const host::Simulation& simulation) {
  double idle = 0;
  double busy = 0;
  for (const host::SimulatedRank& rank : simulation.ranks) {
    idle += rank.idle;
    busy += simulation.seconds - rank.idle;
  }
  return idle / busy;
}

double halves(const Task& task) {
  return task.kind == Task::Kind::forward ? 1 : task.kind == Task::Kind::backward ? 2 : 0;
}
double thirds(const Task& task) {
  return task.kind == Task::Kind::prologue || task.kind == Task::Kind::epilogue ? 0 : 1;
}
/// The third chunk takes twice the time of the others.
double unequal(const Task& task) { return halves(task) * (task.chunk == 2 ? 2 : 1); }
double unequal_thirds(const Task& task) { return thirds(task) * (task.chunk == 2 ? 2 : 1); }

struct BubbleCase {
  const char* name;
  const char* options;
  int micro_batches;
  bool splits;
  double bubble;  ///< the published formula
};

/// Four stages.
class ScheduleBubble : public ::testing::TestWithParam<BubbleCase> {
 protected:
  ScheduleBubble()
      : step_(std::string("[[strategy]]\nplugin = \"pipeline\"\nsize = 4\n") + GetParam().options,
              2 * GetParam().micro_batches, 2, 14) {}

  SmallStep step_;
};

TEST_P(ScheduleBubble, EqualsItsFormulaForEqualTimes) {
  const host::Simulation simulation =
      host::simulate(timed(step_.compiled, GetParam().splits ? thirds : halves), step_.compiled.class_of_rank, 0);
  EXPECT_NEAR(bubble(simulation), GetParam().bubble, 1e-12);
}

/// The timeline of `strata explain` replays the schedule by another way: tasks instead of instructions.
TEST_P(ScheduleBubble, EqualsAReplayForUnequalTimes) {
  const TaskSeconds seconds = GetParam().splits ? unequal_thirds : unequal;
  const host::Simulation simulation = host::simulate(timed(step_.compiled, seconds), step_.compiled.class_of_rank, 0);
  const host::Stages& stages = step_.compiled.stages;
  const host::Timeline timeline =
      host::simulate_programs(host::stage_programs(step_.compiled, stages.axis), stages.axis,
                              [&](const Program&, const Task& task) { return seconds(task); });
  EXPECT_NEAR(simulation.seconds, timeline.makespan, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ScheduleBubble,
    ::testing::Values(
        BubbleCase{"naive", "schedule = \"naive\"\n", 8, false, 3},
        BubbleCase{"gpipe", "schedule = \"gpipe\"\n", 8, false, 3.0 / 8},
        BubbleCase{"one_f_one_b", "", 8, false, 3.0 / 8},
        BubbleCase{"interleaved", "schedule = \"interleaved\"\nvirtual_stages = 2\n", 8, false, 3.0 / 16},
        BubbleCase{"interleaved_4", "schedule = \"interleaved\"\nvirtual_stages = 4\n", 8, false, 3.0 / 32},
        BubbleCase{"zb_h1", "schedule = \"zb-h1\"\n", 8, true, 3.0 / 24},
        // One more: a stage's receive reuses memory that the stage has sent from, so it waits for that message.
        BubbleCase{"zbv", "schedule = \"zbv\"\n", 8, true, 4.0 / 48}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
