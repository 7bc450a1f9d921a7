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
  const auto first = std::find(class_of_rank.begin(), class_of_rank.end(), number);
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
    if (is_communication(instruction)) resolve(works.back());
  }
  TimedWork& work = works.back();
  ++work.kernels;
  work.seconds += time.seconds;
  if (kind != TimedWork::Kind::kernels) return;
  // The kernel starts after its launch, and after the one before it.
  work.launched = std::max(work.launched, work.kernels * timed_.launch) + time.seconds;
  work.busy[static_cast<std::size_t>(time.kind)] += time.seconds;
}

void TimedSchedule::resolve(TimedWork& work) {
  const Counterparts with = counterparts_of(*timed_.program, *work.instruction);
  auto known = known_.find(with);
  if (known == known_.end()) known = known_.emplace(with, participants(with)).first;
  work.classes = known->second.classes;
  work.lane = known->second.lane;
  work.axes = known->second.axes;
}

TimedSchedule::Participants TimedSchedule::participants(const Counterparts& with) {
  std::set<int> classes;
  for (const int rank : ranks_of(with, timed_.program->mesh, rank_)) {
    classes.insert(class_of_rank_.at(static_cast<std::size_t>(rank)));
  }
  return {.classes = {classes.begin(), classes.end()}, .lane = with.peer ? 0 : lanes_++, .axes = join(with.axes, "+")};
}

}  // namespace strata::host
