#include "reports/program_summary.hpp"

#include <map>
#include <set>
#include <utility>

#include "compiler/graph/loss_elements.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/step_variants.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace strata::host {

std::vector<CommunicationSummary> summarize_communication(const Program& program, std::uint64_t step) {
  std::map<std::pair<std::string, std::string>, CommunicationSummary> by_kind;
  for_each_instruction(program, step, [&](const TaskInstance&, std::size_t, const Instruction& instruction) {
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

std::vector<AverageCommunication> average_communication(const Program& program) {
  const StepVariants steps = step_variants(program);
  std::map<std::pair<std::string, std::string>, AverageCommunication> by_kind;
  for (const StepVariant& variant : steps.variants) {
    const double share = static_cast<double>(variant.count) / static_cast<double>(steps.period);
    for (const CommunicationSummary& each : summarize_communication(program, variant.step)) {
      AverageCommunication& average = by_kind[{each.kind, each.axes}];
      average.kind = each.kind;
      average.axes = each.axes;
      average.calls += share * static_cast<double>(each.calls);
      average.bytes += share * each.bytes;
    }
  }
  std::vector<AverageCommunication> all;
  for (auto& [key, average] : by_kind) all.push_back(std::move(average));
  return all;
}

double sent_bytes(const Program& program, std::uint64_t step) {
  double bytes = 0;
  for (const CommunicationSummary& each : summarize_communication(program, step)) bytes += each.bytes;
  return bytes;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  std::set<std::string> sources;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role == ParameterRole::constant) continue;
    const DerivedInitializer* derived = derived_initializer(parameter.initialization);
    if (derived == nullptr) {
      count += element_count(graph.shape(parameter.value));
    } else if (sources.insert(derived->source().name).second) {
      count += element_count(derived->source().shape);
    }
  }
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
