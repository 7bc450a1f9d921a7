#include "reports/program_summary.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/step_variants.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace strata::host {
namespace {

template <class Key, class Summary>
std::vector<Summary> values(const std::map<Key, Summary>& summaries) {
  std::vector<Summary> all;
  for (const auto& [key, summary] : summaries) all.push_back(summary);
  return all;
}

/// The operands of a node that are factors of matrix products: those that mixed precision shortens.
std::vector<Value> factors(const Graph& graph, const Node& node, const OpRegistry& registry) {
  std::vector<Value> found;
  const OpDefinition& op = registry.get(node.op);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!is_floating_point(graph.type(node.operands[i]).dtype)) continue;
    if (op.operand_precision(static_cast<int>(i)) == OperandPrecision::low) found.push_back(node.operands[i]);
  }
  return found;
}

/// Calls visit(factors, FLOPs of the forward pass) for every product of the forward pass.
template <class Visit>
void for_each_product(const Graph& graph, const OpRegistry& registry, const Visit& visit) {
  for (const Node& node : graph.nodes()) {
    if (node.is_leaf() || node.phase != Phase::forward) continue;
    const std::vector<Value> of_node = factors(graph, node, registry);
    if (!of_node.empty()) visit(of_node, registry.get(node.op).cost(graph, node).flops);
  }
}

/// Elements of the largest integer operand of `node` or, if it has none, of a node before it. 0 if there is none.
std::int64_t integers_before(const Graph& graph, const Node& node) {
  std::vector<const Node*> open{&node};
  std::set<int> seen;
  while (!open.empty()) {
    const Node& next = *open.back();
    open.pop_back();
    std::int64_t elements = 0;
    for (const Value& operand : next.operands) {
      if (graph.type(operand).dtype == DType::i32) elements = std::max(elements, element_count(graph.shape(operand)));
    }
    if (elements > 0) return elements;
    for (const Value& operand : next.operands) {
      if (seen.insert(operand.node).second) open.push_back(&graph.node(operand.node));
    }
  }
  return 0;
}

}  // namespace

std::vector<CommunicationSummary> summarize_communication(const Program& program, std::uint64_t step) {
  std::map<std::pair<std::string, std::string>, CommunicationSummary> by_kind;
  for_each_instruction(program, step, [&](const TaskInstance&, std::size_t, const Instruction& instruction) {
    if (!instruction.is<Collective>() && !instruction.is<Send>()) return;
    const std::string kind = work_name(instruction);
    const std::string axes = join(communication_axes(instruction), "+");
    CommunicationSummary& summary = by_kind.try_emplace({kind, axes}, CommunicationSummary{kind, axes}).first->second;
    ++summary.calls;
    summary.bytes += bytes_sent(program, instruction);
  });
  return values(by_kind);
}

std::vector<CommunicationSummary> average_communication(const Program& program) {
  const StepVariants steps = step_variants(program);
  std::map<std::pair<std::string, std::string>, CommunicationSummary> by_kind;
  for (const StepVariant& variant : steps.variants) {
    const double share = static_cast<double>(variant.count) / static_cast<double>(steps.period);
    for (const CommunicationSummary& each : summarize_communication(program, variant.step)) {
      CommunicationSummary& average =
          by_kind.try_emplace({each.kind, each.axes}, CommunicationSummary{each.kind, each.axes}).first->second;
      average.calls += share * each.calls;
      average.bytes += share * each.bytes;
    }
  }
  return values(by_kind);
}

double sent_bytes(const Program& program, std::uint64_t step) {
  double bytes = 0;
  for (const CommunicationSummary& each : summarize_communication(program, step)) bytes += each.bytes;
  return bytes;
}

bool is_counted(const Parameter& parameter) {
  return parameter.role != ParameterRole::constant && parameter.role != ParameterRole::running_average;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  std::set<std::string> sources;
  for (const Parameter& parameter : graph.parameters) {
    if (!is_counted(parameter)) continue;
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

std::vector<TransferSummary> summarize_transfers(const Program& program) {
  std::map<std::pair<MemoryPlace, MemoryPlace>, TransferSummary> by_places;
  for_each_instruction(program, [&](const TaskInstance&, std::size_t, const Instruction& instruction) {
    if (!instruction.is<Transfer>()) return;
    const Buffer& from = program.buffer(instruction.inputs.at(0));
    const Buffer& to = program.buffer(instruction.outputs.at(0));
    TransferSummary& summary = by_places[{from.place, to.place}];
    summary.from = from.place;
    summary.to = to.place;
    ++summary.calls;
    summary.bytes += from.bytes();
  });
  return values(by_places);
}

double model_flops(const Graph& graph, const OpRegistry& registry) {
  const std::set<int> trained = trained_nodes(graph);
  double flops = 0;
  for_each_product(graph, registry, [&](const std::vector<Value>& of_node, double forward) {
    const auto gradients =
        std::ranges::count_if(of_node, [&](const Value& factor) { return trained.contains(factor.node); });
    flops += forward * static_cast<double>(1 + std::min<std::ptrdiff_t>(gradients, 2));
  });
  return flops;
}

DType product_type(const Graph& graph, const OpRegistry& registry) {
  std::map<DType, double> flops;
  for_each_product(graph, registry, [&](const std::vector<Value>& of_node, double forward) {
    flops[graph.type(of_node.front()).dtype] += forward;
  });
  const auto most =
      std::ranges::max_element(flops, [](const auto& one, const auto& other) { return one.second < other.second; });
  return most == flops.end() ? DType::f32 : most->first;
}

std::int64_t loss_elements(const Graph& graph) {
  std::int64_t elements = 0;
  for (const Sink& sink : graph.sinks) {
    if (sink.kind == Sink::Kind::count) elements += integers_before(graph, graph.node(sink.value.node));
  }
  return elements > 0 ? elements : graph.sizes.at("batch");
}

}  // namespace strata::host
