#include "compiler/order/order.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/program/instructions.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

Task::Kind kind_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return Task::Kind::forward;
    case Phase::backward:
      return Task::Kind::backward;
    default:
      return Task::Kind::weight;
  }
}

int find_task(const Program& program, Task::Kind kind, int chunk = 0) {
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    if (program.tasks[i].kind == kind && program.tasks[i].chunk == chunk) return static_cast<int>(i);
  }
  return -1;
}

void append(Program& program, int task, int micro_batch) {
  if (task >= 0) program.schedule.push_back({task, micro_batch, false});
}

/// Finds the position of each completion in the tasks of one program.
class CompletionPlaces {
 public:
  CompletionPlaces(Program& program, const std::vector<TrainedBucket>& buckets)
      : program_(program), buckets_(buckets) {}

  void run() {
    for (const TrainedBucket& each : buckets_) find_place(each);
    for (auto& [task, completions] : due_)
      insert(program_.tasks[static_cast<std::size_t>(task)], std::move(completions));
  }

 private:
  /// The gradients of a bucket are complete in the last run of the last scheduled task that adds to them. The epilogue
  /// does not count: it reads completed gradients, and may sum several contributions. If all gradients of a tied bucket
  /// are made on other stages, they are complete here when the prologue has written their zeros.
  void find_place(const TrainedBucket& each) {
    if (each.completion.instructions.empty()) return;
    const auto is_gradient = [&](BufferId output) {
      return std::ranges::any_of(each.gradients,
                                 [&](const auto& gradient) { return gradient.second == program_.root(output); });
    };
    for (std::size_t at = program_.schedule.size(); at-- > 0;) {
      const TaskInstance& run = program_.schedule[at];
      const Task& task = program_.tasks[static_cast<std::size_t>(run.task)];
      const bool zeroes = task.kind == Task::Kind::prologue && each.bucket.stages.size() > 1;
      if (run.micro_batch < 0 && !zeroes) continue;
      const std::ptrdiff_t writer = last_writer(task, is_gradient);
      if (writer < 0) continue;
      for (Instruction instruction : each.completion.instructions) {
        instruction.occurrence = Occurrence::last;
        due_[run.task][writer].push_back(std::move(instruction));
      }
      return;
    }
    throw VerificationError("no pass of " + program_.name + " adds to the gradients of bucket '" + each.bucket.name +
                            "', which it is to complete");
  }

  Program& program_;
  const std::vector<TrainedBucket>& buckets_;
  std::map<int, Insertions> due_;  // by task
};

}  // namespace

void order_tasks(Program& program, const std::vector<ScheduledTask>& work, int micro_batches) {
  program.micro_batches = micro_batches;
  program.schedule.clear();
  program.schedule.reserve(work.size() + 2);
  append(program, find_task(program, Task::Kind::prologue), -1);
  for (const ScheduledTask& each : work) {
    append(program, find_task(program, kind_of(each.phase), each.chunk), each.micro_batch);
  }
  append(program, find_task(program, Task::Kind::epilogue), -1);
  std::set<int> later;
  for (auto at = program.schedule.rbegin(); at != program.schedule.rend(); ++at) {
    at->is_last = later.insert(at->task).second;
  }
}

void complete_gradients_early(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets) {
  CompletionPlaces(builder.program(), buckets).run();
}

}  // namespace strata::host
