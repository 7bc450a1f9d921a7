#include "compiler/order/order.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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
    for (const auto& [task, completions] : due_) insert(program_.tasks[static_cast<std::size_t>(task)], completions);
  }

 private:
  /// The buckets that are complete after an instruction, by its position in the task.
  using Completions = std::map<std::ptrdiff_t, std::vector<const TrainedBucket*>>;

  /// The gradients of a bucket are complete in the last run of the last scheduled task that adds to them. The epilogue
  /// does not count: it reads completed gradients, and may sum several contributions. If all gradients of a tied bucket
  /// are made on other stages, they are complete here when the prologue has written their zeros.
  void find_place(const TrainedBucket& each) {
    if (each.completion.instructions.empty()) return;
    for (std::size_t at = program_.schedule.size(); at-- > 0;) {
      const auto& [task, micro_batch, is_last] = program_.schedule[at];
      const bool zeroes =
          program_.tasks[static_cast<std::size_t>(task)].kind == Task::Kind::prologue && each.bucket.stages.size() > 1;
      if (micro_batch < 0 && !zeroes) continue;
      const std::ptrdiff_t writer = last_writer(task, each);
      if (writer < 0) continue;
      due_[task][writer].push_back(&each);
      return;
    }
    throw VerificationError("no pass of " + program_.name + " adds to the gradients of bucket '" + each.bucket.name +
                            "', which it is to complete");
  }

  /// Position of the instruction that writes the last gradient of the bucket; -1 if the task has none.
  [[nodiscard]] std::ptrdiff_t last_writer(int task, const TrainedBucket& each) const {
    const auto& instructions = program_.tasks[static_cast<std::size_t>(task)].instructions;
    const auto writes = [&](BufferId output) {
      const BufferId root = program_.root(output);
      return std::any_of(each.gradients.begin(), each.gradients.end(),
                         [&](const auto& gradient) { return gradient.second == root; });
    };
    for (auto at = static_cast<std::ptrdiff_t>(instructions.size()) - 1; at >= 0; --at) {
      const auto& outputs = instructions[static_cast<std::size_t>(at)].outputs;
      if (std::any_of(outputs.begin(), outputs.end(), writes)) return at;
    }
    return -1;
  }

  static void insert(Task& task, const Completions& completions) {
    std::vector<Instruction> instructions;
    for (std::size_t i = 0; i < task.instructions.size(); ++i) {
      instructions.push_back(std::move(task.instructions[i]));
      const auto due = completions.find(static_cast<std::ptrdiff_t>(i));
      if (due == completions.end()) continue;
      for (const TrainedBucket* each : due->second) {
        for (Instruction instruction : each->completion.instructions) {
          instruction.occurrence = Occurrence::last;
          instructions.push_back(std::move(instruction));
        }
      }
    }
    task.instructions = std::move(instructions);
  }

  Program& program_;
  const std::vector<TrainedBucket>& buckets_;
  std::map<int, Completions> due_;  // by task
};

}  // namespace

void order_tasks(ProgramBuilder& builder, const std::vector<ScheduledTask>& work, int micro_batches) {
  Program& program = builder.program();
  program.micro_batches = micro_batches;
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
