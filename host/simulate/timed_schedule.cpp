#include "simulate/timed_schedule.hpp"

#include <algorithm>
#include <set>

namespace strata::host {
namespace {

TimedWork::Kind kind_of(const Instruction& instruction) {
  if (instruction.is<Collective>()) return TimedWork::Kind::collective;
  if (instruction.is<Send>()) return TimedWork::Kind::send;
  if (instruction.is<Receive>()) return TimedWork::Kind::receive;
  if (instruction.is<Transfer>()) return TimedWork::Kind::transfer;
  return TimedWork::Kind::kernels;
}

}  // namespace

TimedSchedule::TimedSchedule(const TimedProgram& timed, const std::vector<int>& class_of_rank, int number,
                             std::uint64_t step)
    : timed_(timed), class_of_rank_(class_of_rank), ranges_(*timed.program), tasks_(timed.program->tasks.size()) {
  const auto first = std::ranges::find(class_of_rank, number);
  rank_ = static_cast<int>(first - class_of_rank.begin());
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    const std::vector<Instruction>& instructions = timed.program->tasks[task].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (!instructions[i].when.holds(step)) continue;
      if (instructions[i].occurrence == Occurrence::always)
        append(tasks_[task][0], instructions[i], timed.tasks[task][i]);
      append(tasks_[task][1], instructions[i], timed.tasks[task][i]);
    }
  }
}

void TimedSchedule::append(std::vector<TimedWork>& works, const Instruction& instruction, const InstructionTime& time) {
  const TimedWork::Kind kind = kind_of(instruction);
  const bool waits = !instruction.waits.empty() || !instruction.earlier_waits.empty();
  const bool continues =
      kind == TimedWork::Kind::kernels && !works.empty() && works.back().kind == TimedWork::Kind::kernels && !waits;
  if (!continues) {
    works.push_back({.kind = kind, .instruction = &instruction});
    if (is_communication(instruction)) works.back().with = &participants(instruction);
  }
  TimedWork& work = works.back();
  ++work.kernels;
  work.seconds += time.seconds;
  if (kind != TimedWork::Kind::kernels) return;
  // The kernel starts after its launch, and after the one before it.
  work.launched = std::max(work.launched, work.kernels * timed_.launch) + time.seconds;
  work.busy[static_cast<std::size_t>(time.kind)] += time.seconds;
}

const Participants& TimedSchedule::participants(const Instruction& communication) {
  const Counterparts with = counterparts_of(*timed_.program, communication);
  const auto [known, added] = known_.try_emplace(with);
  if (!added) return known->second;
  std::set<int> classes;
  for (const int rank : ranks_of(with, timed_.program->mesh, rank_)) {
    classes.insert(class_of_rank_.at(static_cast<std::size_t>(rank)));
  }
  known->second = {{classes.begin(), classes.end()}, with.peer ? 0 : lanes_++, join(with.axes, "+")};
  return known->second;
}

}  // namespace strata::host
