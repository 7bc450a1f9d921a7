#include "setup/remarks.hpp"

#include <map>
#include <set>

#include "compiler/graph/build_graph.hpp"
#include "compiler/program/instructions.hpp"

namespace strata::host {
namespace {

/// Ops for which a device has only the reference kernel, and why the fast kernels do not take them.
using SlowOps = std::map<std::string, std::string>;

/// Adds the slow ops of `compiled`.
void find_slow_ops(const Compiled& compiled, const Device& device, SlowOps& slow) {
  for (const Program& program : compiled.programs) {
    const Coordinates first = program.mesh.coordinates(0);
    for (const Task& task : program.tasks) {
      for (const Instruction& instruction : task.instructions) {
        const auto* compute = instruction.as<Compute>();
        if (compute == nullptr || slow.contains(compute->op)) continue;
        const auto choice = device.kernel_choice(describe_instruction(program, instruction, first, 0));
        if (choice && choice->is_last_resort) slow[compute->op] = choice->refusal;
      }
    }
  }
}

std::vector<std::string> unread_parameters(const Graph& graph) {
  const std::set<Value> read = read_values(graph);
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role == ParameterRole::constant || read.contains(parameter.value)) continue;
    names.push_back("'" + parameter.name + "'");
  }
  return names;
}

std::string text(const SlowOps& slow) {
  std::vector<std::string> words;
  for (const auto& [op, refusal] : slow) words.push_back(refusal.empty() ? op : op + " (" + refusal + ")");
  return join(words, ", ");
}

}  // namespace

std::vector<std::string> find_remarks(const TrainingPrograms& programs, const Device& device) {
  std::vector<std::string> remarks;
  for (const std::string& strategy : programs.training.idle_strategies) {
    remarks.push_back(strategy + " has no effect on this run");
  }
  for (const int group : programs.training.groups.unused) {
    remarks.push_back("optimizer group " + std::to_string(group + 1) + " names no parameter of the model");
  }
  if (const auto unread = unread_parameters(programs.training.graph); !unread.empty()) {
    remarks.push_back("not trained, because no loss depends on them: " + join(unread, ", "));
  }
  std::set<std::string> notes = programs.training.notes;
  if (programs.evaluation) notes.insert(programs.evaluation->notes.begin(), programs.evaluation->notes.end());
  remarks.insert(remarks.end(), notes.begin(), notes.end());
  for (const std::string& note : device.notes()) remarks.push_back(device.description() + ": " + note);
  SlowOps slow;
  find_slow_ops(programs.training, device, slow);
  if (programs.evaluation) find_slow_ops(*programs.evaluation, device, slow);
  if (!slow.empty()) {
    remarks.push_back("no fast kernel for " + text(slow) + " on " + device.description() +
                      "; the slow reference kernels are used instead");
  }
  return remarks;
}

}  // namespace strata::host
