#include "reports/program_summary.hpp"

#include <map>
#include <utility>

namespace strata::host {

std::vector<CommunicationSummary> summarize_communication(const Program& program) {
  std::map<std::pair<std::string, std::string>, CommunicationSummary> by_kind;
  for (const TaskInstance& instance : program.schedule) {
    for (const Instruction& instruction : program.tasks.at(static_cast<std::size_t>(instance.task)).instructions) {
      std::string kind;
      if (instruction.kind == InstructionKind::collective) {
        kind = to_string(instruction.collective);
      } else if (instruction.kind == InstructionKind::send) {
        kind = to_string(instruction.kind);
      } else {
        continue;
      }
      CommunicationSummary& summary = by_kind[{kind, join(instruction.axes, "+")}];
      summary.kind = kind;
      summary.axes = join(instruction.axes, "+");
      ++summary.calls;
      summary.bytes += bytes_sent(program, instruction);
    }
  }
  std::vector<CommunicationSummary> all;
  for (auto& [key, summary] : by_kind) all.push_back(std::move(summary));
  return all;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Parameter& parameter : graph.parameters) count += element_count(graph.shape(parameter.value));
  return count;
}

double flops_per_token(const Graph& graph, const OpRegistry& registry) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (!node.is_leaf()) flops += registry.get(node.op).cost(graph, node).flops;
  }
  return flops / static_cast<double>(graph.sizes.at("batch") * graph.sizes.at("seq"));
}

}  // namespace strata::host
