#include "compiler/memory/fullest_programs.hpp"

#include <algorithm>

namespace strata::host {
namespace {

/// The most runs of a kind at one time that wait for a later kind of the same micro-batch.
int most_in_flight(const Program& program, Task::Kind begin, Task::Kind end) {
  int now = 0;
  int most = 0;
  for (const TaskInstance& run : program.schedule) {
    const Task::Kind kind = program.tasks[static_cast<std::size_t>(run.task)].kind;
    if (kind == begin) most = std::max(most, ++now);
    if (kind == end) --now;
  }
  return most;
}

}  // namespace

std::set<std::size_t> find_fullest(const std::vector<std::size_t>& classes, const std::vector<Program>& programs) {
  std::set<std::size_t> found;
  const auto add_fullest = [&](Task::Kind begin, Task::Kind end) {
    found.insert(*std::ranges::max_element(classes, [&](std::size_t one, std::size_t other) {
      return most_in_flight(programs[one], begin, end) < most_in_flight(programs[other], begin, end);
    }));
  };
  add_fullest(Task::Kind::forward, Task::Kind::backward);
  add_fullest(Task::Kind::forward, Task::Kind::weight);
  add_fullest(Task::Kind::backward, Task::Kind::weight);
  return found;
}

}  // namespace strata::host
