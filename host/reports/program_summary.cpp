#include "reports/program_summary.hpp"

#include <map>
#include <utility>

#include "compiler/graph/loss_elements.hpp"
#include "compiler/program/buffer_ranges.hpp"

namespace strata::host {

std::vector<CommunicationSummary> summarize_communication(const Program& program) {
  std::map<std::pair<std::string, std::string>, CommunicationSummary> by_kind;
  for_each_instruction(program, [&](const TaskInstance&, std::size_t, const Instruction& instruction) {
    if (!instruction.is<Collective>() && !instruction.is<Send>()) return;
    const std::string kind = work_name(instruction);
    const std::string axes = join(communication_axes(instruction), "+");
    CommunicationSummary& summary = by_kind[{kind, axes}];
    summary.kind = kind;
    summary.axes = axes;
    ++summary.calls;
    summary.bytes += bytes_sent(program, instruction);
  });
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
  return flops / static_cast<double>(loss_elements(graph));
}

}  // namespace strata::host
