#include "step_kernels/step_kernel.hpp"

#include <algorithm>
#include <utility>

#include "compiler/program/instructions.hpp"

namespace strata::bench {
namespace {

/// Optimizers read the values and states that they write.
bool reads_results(const OpInstance& instance) { return instance.accumulate || instance.op.ends_with("_update"); }

/// Bytes that are accessed in a table whose rows or elements are picked or added to: at most those of the picked ones.
std::int64_t bytes_touched(const OperandDescription& table, const OperandDescription& picked) {
  return std::min(element_count(table.shape), element_count(picked.shape)) *
         static_cast<std::int64_t>(size_of(table.dtype));
}

std::int64_t bytes_moved(const OpInstance& instance) {
  std::int64_t read = 0;
  std::int64_t written = 0;
  for (const OperandDescription& operand : instance.operands) read += bytes_of(operand);
  for (const OperandDescription& result : instance.results) written += bytes_of(result);
  if (instance.op == "embedding" || instance.op == "pick") {
    const OperandDescription& table = instance.operands.front();
    read += bytes_touched(table, instance.results.front()) - bytes_of(table);
  } else if (instance.op == "embedding_gradient") {
    written = bytes_touched(instance.results.front(), instance.operands.front());
  }
  return read + (reads_results(instance) ? 2 : 1) * written;
}

bool multiplies_matrices(const OpInstance& instance) {
  return instance.op.starts_with("linear") || instance.op == "attention" || instance.op == "attention_gradient";
}

/// FLOPs of the op on matrix units, from the cost of a graph with one node and the instance's sizes.
double flops_of(const OpInstance& instance, const OpRegistry& registry) {
  if (!multiplies_matrices(instance)) return 0;
  Graph graph;
  Node node;
  node.op = instance.op;
  node.name = instance.name;
  node.attributes = instance.attributes;
  const auto type_of = [&](const OperandDescription& operand) {
    for (std::size_t i = 0; i < operand.dims.size(); ++i) graph.sizes[operand.dims[i]] = operand.shape[i];
    return TensorType{operand.dims, operand.dtype};
  };
  for (const OperandDescription& operand : instance.operands) {
    Node leaf;
    leaf.op = "input";
    leaf.results = {type_of(operand)};
    node.operands.push_back({graph.append(std::move(leaf)), 0});
  }
  for (const OperandDescription& result : instance.results) node.results.push_back(type_of(result));
  return registry.get(instance.op).cost(graph, node).flops;
}

std::string sizes(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? " " : "") + std::to_string(size);
  return text + "]";
}

std::string label_of(const OpInstance& instance) {
  std::string label = instance.op;
  for (const OperandDescription& operand : instance.operands) label += " " + sizes(operand.shape);
  const OperandDescription& typed = instance.operands.empty() ? instance.results.front() : instance.operands.front();
  label += " " + std::string(to_string(typed.dtype));
  return instance.accumulate ? label + ", adds" : label;
}

/// Equal for instances that only differ in name.
std::string key_of(const OpInstance& instance) {
  std::string key = instance.op + to_string(instance.attributes) + (instance.accumulate ? "+" : "");
  for (const auto* operands : {&instance.operands, &instance.results}) {
    key += ';';
    for (const OperandDescription& each : *operands) {
      key += to_string(TensorType{each.dims, each.dtype}) + sizes(each.shape);
    }
  }
  return key;
}

std::vector<int> results_in_place(const Instruction& instruction) {
  std::vector<int> operands;
  for (const BufferId output : instruction.outputs) {
    const auto found = std::find(instruction.inputs.begin(), instruction.inputs.end(), output);
    operands.push_back(found == instruction.inputs.end() ? -1 : static_cast<int>(found - instruction.inputs.begin()));
  }
  return operands;
}

}  // namespace

std::int64_t bytes_of(const OperandDescription& operand) {
  return element_count(operand.shape) * static_cast<std::int64_t>(size_of(operand.dtype));
}

StepKernel describe_kernel(OpInstance instance, const OpRegistry& registry) {
  StepKernel kernel;
  kernel.label = label_of(instance);
  kernel.flops = flops_of(instance, registry);
  kernel.bytes = static_cast<double>(bytes_moved(instance));
  kernel.in_place.assign(instance.results.size(), -1);
  kernel.instance = std::move(instance);
  return kernel;
}

std::vector<StepKernel> step_kernels(const Program& program, const OpRegistry& registry, std::uint64_t seed) {
  std::vector<StepKernel> kernels;
  std::map<std::string, std::size_t> known;
  for (const TaskInstance& scheduled : program.schedule) {
    for (const Instruction& each : program.tasks.at(static_cast<std::size_t>(scheduled.task)).instructions) {
      if (!each.is<Compute>() || !scheduled.runs(each)) continue;
      OpInstance instance = host::describe_instruction(program, each, program.mesh.coordinates(0), seed);
      const auto [found, is_new] = known.try_emplace(key_of(instance), kernels.size());
      if (is_new) {
        kernels.push_back(describe_kernel(std::move(instance), registry));
        kernels.back().in_place = results_in_place(each);
      }
      ++kernels[found->second].calls;
    }
  }
  return kernels;
}

}  // namespace strata::bench
