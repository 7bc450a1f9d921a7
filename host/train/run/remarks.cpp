#include "train/run/remarks.hpp"

#include <set>

#include "compiler/graph/build_graph.hpp"
#include "compiler/program/op_instance.hpp"

namespace strata::host {
namespace {

/// Adds the ops of `compiled` for which the device has only the reference kernel.
void find_slow_ops(const Compiled& compiled, const Device& device, std::set<std::string>& slow) {
  for (const Program& program : compiled.programs) {
    const Coordinates first = program.mesh.coordinates(0);
    for (const Task& task : program.tasks) {
      for (const Instruction& instruction : task.instructions) {
        const auto* compute = instruction.as<Compute>();
        if (compute == nullptr || slow.contains(compute->op)) continue;
        const auto choice = device.kernel_choice(describe_instruction(program, instruction, first, 0));
        if (choice && choice->is_last_resort) slow.insert(compute->op);
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
  std::set<std::string> slow;
  find_slow_ops(programs.training, device, slow);
  if (programs.evaluation) find_slow_ops(*programs.evaluation, device, slow);
  if (!slow.empty()) {
    remarks.push_back("no fast kernel for " + join({slow.begin(), slow.end()}, ", ") + " on " + device.description() +
                      "; reference kernels, which are slow, take their place");
  }
  return remarks;
}

}  // namespace strata::host
