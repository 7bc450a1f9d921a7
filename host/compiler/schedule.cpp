#include "compiler/schedule.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/step_end.hpp"

namespace strata::host {
namespace {

int find_task(const Program& program, Task::Kind kind) {
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    if (program.tasks[i].kind == kind) return static_cast<int>(i);
  }
  return -1;
}

/// The backward task with each bucket's collectives behind the last instruction that adds to it.
Task with_reductions(ProgramBuilder& builder, const Task& backward, const std::vector<Bucket>& buckets) {
  std::map<BufferId, std::size_t> bucket_of;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (const auto& [partial, gradient] : buckets[i].gradients) bucket_of[gradient] = i;
  }
  std::vector<std::ptrdiff_t> last(buckets.size(), -1);
  for (std::size_t at = 0; at < backward.instructions.size(); ++at) {
    for (const BufferId output : backward.instructions[at].outputs) {
      const auto bucket = bucket_of.find(builder.program().root(output));
      if (bucket != bucket_of.end()) last[bucket->second] = static_cast<std::ptrdiff_t>(at);
    }
  }
  Task result = backward;
  result.name = "last backward";
  result.instructions.clear();
  const auto reduce_complete = [&](std::ptrdiff_t at) {
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (last[i] != at) continue;
      for (Instruction& instruction : complete_gradients(builder, buckets[i]))
        result.instructions.push_back(std::move(instruction));
    }
  };
  reduce_complete(-1);  // gradients that only the forward pass adds to
  for (std::size_t at = 0; at < backward.instructions.size(); ++at) {
    result.instructions.push_back(backward.instructions[at]);
    reduce_complete(static_cast<std::ptrdiff_t>(at));
  }
  return result;
}

}  // namespace

void schedule(ProgramBuilder& builder, int micro_batches, const std::vector<Bucket>& buckets, bool overlap) {
  Program& program = builder.program();
  program.micro_batches = micro_batches;
  const int forward = find_task(program, Task::Kind::forward);
  const int backward = find_task(program, Task::Kind::backward);
  int last_backward = backward;
  if (overlap && backward >= 0) {
    Task last = with_reductions(builder, program.tasks[static_cast<std::size_t>(backward)], buckets);
    if (micro_batches == 1) {
      program.tasks[static_cast<std::size_t>(backward)] = std::move(last);
    } else {
      program.tasks.push_back(std::move(last));
      last_backward = static_cast<int>(program.tasks.size()) - 1;
    }
  }
  const auto append = [&](int task, int micro_batch) {
    if (task >= 0) program.schedule.push_back({task, micro_batch});
  };
  append(find_task(program, Task::Kind::prologue), -1);
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    append(forward, micro_batch);
    append(micro_batch + 1 == micro_batches ? last_backward : backward, micro_batch);
  }
  append(find_task(program, Task::Kind::epilogue), -1);
}

}  // namespace strata::host
