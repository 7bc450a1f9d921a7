#include "compiler/order/schedule.hpp"

#include <algorithm>
#include <map>
#include <utility>

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

class Scheduler {
 public:
  Scheduler(ProgramBuilder& builder, const std::vector<Bucket>& buckets)
      : program_(builder.program()), buckets_(buckets) {}

  void run(const std::vector<ScheduledTask>& work, bool overlap) {
    append(find_task(program_, Task::Kind::prologue), -1);
    for (const ScheduledTask& each : work) {
      append(find_task(program_, kind_of(each.phase), each.chunk), each.micro_batch);
    }
    if (overlap) complete_early();
    append(find_task(program_, Task::Kind::epilogue), -1);
  }

 private:
  void append(int task, int micro_batch) {
    if (task >= 0) program_.schedule.push_back({task, micro_batch});
  }

  [[nodiscard]] Task& task(int index) { return program_.tasks[static_cast<std::size_t>(index)]; }

  /// Behind which instruction of the task the last gradient of the bucket is written; -1 for none.
  std::ptrdiff_t last_writer(int index, const Bucket& bucket) {
    const auto& instructions = task(index).instructions;
    const auto writes = [&](BufferId output) {
      const BufferId root = program_.root(output);
      return std::any_of(bucket.gradients.begin(), bucket.gradients.end(),
                         [&](const auto& each) { return each.second == root; });
    };
    for (auto at = static_cast<std::ptrdiff_t>(instructions.size()) - 1; at >= 0; --at) {
      const auto& outputs = instructions[static_cast<std::size_t>(at)].outputs;
      if (std::any_of(outputs.begin(), outputs.end(), writes)) return at;
    }
    return -1;
  }

  void complete_early() {
    std::map<std::size_t, std::map<std::ptrdiff_t, std::vector<const Bucket*>>> due;  // by place in the schedule
    std::map<std::pair<int, const Bucket*>, std::ptrdiff_t> writers;
    for (const Bucket& bucket : buckets_) {
      if (bucket.completion.empty()) continue;
      for (std::size_t at = program_.schedule.size(); at-- > 0;) {
        const int index = program_.schedule[at].task;
        const auto [writer, added] = writers.try_emplace({index, &bucket}, -1);
        if (added) writer->second = last_writer(index, bucket);
        if (writer->second < 0) continue;
        due[at][writer->second].push_back(&bucket);
        break;
      }
    }
    for (const auto& [at, completions] : due) program_.schedule[at].task = with_completions(at, completions);
  }

  /// \return the task for the execution at `at` of the schedule: a last one of its own, unless it is the only one.
  int with_completions(std::size_t at, const std::map<std::ptrdiff_t, std::vector<const Bucket*>>& completions) {
    const int index = program_.schedule[at].task;
    Task last = task(index);
    last.name = "last " + last.name;
    last.instructions.clear();
    for (std::size_t i = 0; i < task(index).instructions.size(); ++i) {
      last.instructions.push_back(task(index).instructions[i]);
      const auto due = completions.find(static_cast<std::ptrdiff_t>(i));
      if (due == completions.end()) continue;
      for (const Bucket* bucket : due->second) {
        last.instructions.insert(last.instructions.end(), bucket->completion.begin(), bucket->completion.end());
      }
    }
    const auto executions = std::count_if(program_.schedule.begin(), program_.schedule.end(),
                                          [&](const TaskInstance& each) { return each.task == index; });
    if (executions == 1) {
      task(index) = std::move(last);
      return index;
    }
    program_.tasks.push_back(std::move(last));
    return static_cast<int>(program_.tasks.size()) - 1;
  }

  Program& program_;
  const std::vector<Bucket>& buckets_;
};

}  // namespace

void schedule(ProgramBuilder& builder, const std::vector<ScheduledTask>& work, int micro_batches,
              const std::vector<Bucket>& buckets, bool overlap) {
  builder.program().micro_batches = micro_batches;
  Scheduler(builder, buckets).run(work, overlap);
}

}  // namespace strata::host
