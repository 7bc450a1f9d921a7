#include "repeated_layers.hpp"

#include <algorithm>
#include <cstddef>

#include "strata/program.hpp"

namespace strata::bench {
namespace {

/// Time of the kernels and collectives of a task's layers.
double layer_seconds(const host::TimedProgram& timed, std::size_t task, int layers) {
  const std::vector<Instruction>& instructions = timed.program->tasks[task].instructions;
  double seconds = 0;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& each = instructions[i];
    const bool is_work = each.is<Compute>() || each.is<Copy>() || each.is<Collective>();
    if (is_work && each.block >= 1 && each.block <= layers) seconds += timed.tasks[task][i].seconds;
  }
  return seconds;
}

void lengthen(host::TimedProgram& timed, std::size_t task, double seconds) {
  const std::vector<Instruction>& instructions = timed.program->tasks[task].instructions;
  const auto first = std::find_if(instructions.begin(), instructions.end(),
                                  [](const Instruction& each) { return each.is<Compute>(); });
  if (first == instructions.end()) return;
  timed.tasks[task][static_cast<std::size_t>(first - instructions.begin())].seconds += seconds;
}

}  // namespace

void repeat_layers_whole(host::TimedPrograms& timed, const host::TimedPrograms& without, int layers) {
  for (std::size_t i = 0; i < timed.programs.size(); ++i) {
    host::TimedProgram& program = timed.programs[i];
    const std::vector<Task>& tasks = program.program->tasks;
    for (std::size_t backward = 0; backward < tasks.size(); ++backward) {
      if (tasks[backward].kind != Task::Kind::backward) continue;
      const auto forward = std::find_if(tasks.begin(), tasks.end(), [&](const Task& each) {
        return each.kind == Task::Kind::forward && each.chunk == tasks[backward].chunk;
      });
      const double whole = layer_seconds(program, static_cast<std::size_t>(forward - tasks.begin()), layers);
      const double repeated =
          layer_seconds(program, backward, layers) - layer_seconds(without.programs.at(i), backward, layers);
      lengthen(program, backward, std::max(whole - repeated, 0.0));
    }
  }
}

}  // namespace strata::bench
