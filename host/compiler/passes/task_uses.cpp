#include "compiler/passes/task_uses.hpp"

#include <algorithm>
#include <utility>

#include "compiler/program/buffer_ranges.hpp"

namespace strata::host {

TaskUses::TaskUses(const Program& program, const Task& task)
    : program_(program), task_(static_cast<int>(&task - program.tasks.data())) {
  for (std::size_t index = 0; index < program.tasks.size(); ++index) {
    const std::vector<Instruction>& instructions = program.tasks[index].instructions;
    for (std::size_t at = 0; at < instructions.size(); ++at) {
      for (const BufferId input : instructions[at].inputs) {
        reads_[input].push_back({static_cast<int>(index), at});
        if (instructions[at].is<Send>()) sent_.insert(input);
      }
    }
  }
  for (const auto& [name, buffer] : program.reports) reads_[buffer].push_back({-1, 0});
  for (std::size_t at = 0; at < task.instructions.size(); ++at) {
    for (const BufferId output : task.instructions[at].outputs) {
      writers_[output].push_back(at);
      writes_of_root_[program.root(output)].push_back({at, output});
    }
  }
}

const std::vector<std::size_t>& TaskUses::writers(BufferId buffer) const {
  static const std::vector<std::size_t> kNone;
  const auto found = writers_.find(buffer);
  return found == writers_.end() ? kNone : found->second;
}

bool TaskUses::is_written_after(BufferId buffer, std::size_t at) const {
  const auto found = writes_of_root_.find(program_.root(buffer));
  if (found == writes_of_root_.end()) return false;
  const auto [begin, end] = bytes_in_root(program_, buffer);
  return std::ranges::any_of(found->second, [&, begin = begin, end = end](const Write& write) {
    const auto [first, last] = bytes_in_root(program_, write.buffer);
    return write.at > at && first < end && begin < last;
  });
}

bool TaskUses::is_read_only_at(BufferId buffer, std::size_t at) const {
  const auto found = reads_.find(buffer);
  return found != reads_.end() && found->second.size() == 1 && is_in_this_task(found->second.front()) &&
         found->second.front().at == at;
}

bool TaskUses::is_read_after(BufferId buffer, std::size_t at) const {
  const auto found = reads_.find(buffer);
  if (found == reads_.end()) return false;
  return std::ranges::any_of(found->second,
                             [this, at](const Use& use) { return !is_in_this_task(use) || use.at > at; });
}

std::size_t TaskUses::last_use_before(BufferId buffer, std::size_t at) const {
  std::size_t last = writers(buffer).back();
  const auto found = reads_.find(buffer);
  if (found == reads_.end()) return last;
  for (const Use& use : found->second) {
    if (is_in_this_task(use) && use.at < at) last = std::max(last, use.at);
  }
  return last;
}

void TaskUses::move(const std::vector<BufferId>& inputs, std::size_t from, std::size_t to) {
  for (const BufferId input : inputs) {
    for (Use& use : reads_[input]) {
      if (is_in_this_task(use) && use.at == from) use.at = to;
    }
  }
}

void TaskUses::set_writer(BufferId buffer, std::size_t at) {
  writers_[buffer] = {at};
  auto& writes = writes_of_root_[program_.root(buffer)];
  std::erase_if(writes, [buffer](const Write& write) { return write.buffer == buffer; });
  writes.push_back({at, buffer});
}

void TaskUses::add_writer(BufferId buffer, std::size_t at) {
  std::vector<std::size_t>& writers = writers_[buffer];
  writers.insert(std::upper_bound(writers.begin(), writers.end(), at), at);
  writes_of_root_[program_.root(buffer)].push_back({at, buffer});
}

std::vector<TaskUses::Place> TaskUses::rename(BufferId from, BufferId to) {
  std::vector<Place> places;
  const std::vector<Use> moved = std::exchange(reads_[from], {});
  for (const Use& use : moved) {
    if (use.task >= 0) places.push_back({static_cast<std::size_t>(use.task), use.at});
    reads_[to].push_back(use);
  }
  if (sent_.erase(from) > 0) sent_.insert(to);
  return places;
}

}  // namespace strata::host
