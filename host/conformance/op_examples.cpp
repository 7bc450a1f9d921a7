#include "conformance/op_examples.hpp"

#include <algorithm>

#include "conformance/check.hpp"
#include "strata/graph.hpp"
#include "strata/random.hpp"
#include "verify/graph_evaluator.hpp"

namespace strata::host {
namespace {

using testing::ExampleOperand;
using testing::OpExample;

std::string operand_name(std::size_t index) { return "operand" + std::to_string(index); }

/// Adds the leaf of an operand. Real operands are parameters, so that gradients flow to them.
Value add_leaf(GraphBuilder& builder, const ExampleOperand& operand, const std::string& name) {
  if (!is_floating_point(operand.dtype)) return builder.input(name, operand.dims, operand.dtype);
  const Initialization start = Initialization::normal(1);
  if (operand.is_constant) return builder.frozen_parameter(name, operand.dims, start);
  return builder.parameter(name, operand.dims, start, false);
}

/// A graph with the op alone.
Graph build_example(const OpExample& example, const OpRegistry& ops, DType real) {
  Graph graph;
  graph.sizes = example.sizes;
  GraphBuilder builder(graph, ops, GraphMode::training, real);
  // Parameters have the type of their builder.
  GraphBuilder full(graph, ops, GraphMode::training, real == DType::f64 ? DType::f64 : DType::f32);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    const ExampleOperand& operand = example.operands[i];
    operands.push_back(add_leaf(operand.stays_f32 ? full : builder, operand, operand_name(i)));
  }
  const std::vector<Value> results = builder.op(example.op, operands, "example", example.attributes);
  for (std::size_t i = 0; i < results.size(); ++i) builder.output("result" + std::to_string(i), results[i]);
  verify(graph, ops, "building the example of op '" + example.op + "'");
  return graph;
}

/// The integer operands, described as a dataset describes its inputs.
std::vector<DatasetInput> inputs_of(const OpExample& example) {
  std::vector<DatasetInput> inputs;
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    const ExampleOperand& operand = example.operands[i];
    if (is_floating_point(operand.dtype)) continue;
    Dims dims = operand.dims;
    const bool per_sample = !dims.empty() && dims.front() == "batch";
    if (per_sample) dims.erase(dims.begin());
    inputs.push_back({.name = operand_name(i),
                      .dims = dims,
                      .dtype = operand.dtype,
                      .indexes = operand.indexes,
                      .per_sample = per_sample});
  }
  return inputs;
}

/// Random values of an operand.
std::vector<double> values_of(const OpExample& example, std::size_t index, std::int64_t count, std::uint64_t seed) {
  const ExampleOperand& operand = example.operands[index];
  const std::uint64_t key = random::stream_key(seed, "example/" + operand_name(index), 0);
  const std::int64_t limit = operand.indexes.empty() ? 2 : example.sizes.at(operand.indexes);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    values.push_back(is_floating_point(operand.dtype)
                         ? random::normal(key, at)
                         : static_cast<double>(random::below(key, at, static_cast<std::uint64_t>(limit))));
  }
  return values;
}

/// True if the device has a kernel for the node.
bool is_supported(const Graph& graph, const OpRegistry& ops, const Device& device, std::uint64_t seed) {
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    return node.is_leaf() || !device.unsupported(whole_instance(graph, ops, node, seed));
  });
}

}  // namespace

std::optional<OpExample> guess_example(const std::string& op, const OpRegistry& ops, const KernelRegistry& kernels) {
  if (kernels.all(op).empty()) return std::nullopt;
  std::string letters = kernels.all(op).back()->definition.signature.operands;
  std::erase(letters, '*');
  if (letters.empty() || letters.find_first_not_of("rtf") != std::string::npos) return std::nullopt;
  OpExample example{.op = op, .sizes = {{"batch", 2}, {"seq", 3}, {"embed", 5}}, .operands = {}};
  example.operands.resize(letters.size(), ExampleOperand{.dims = {"batch", "seq", "embed"}});
  try {
    if (ops.get(op).flat_signature({})) return std::nullopt;  // The op is in no graph.
    const Graph graph = build_example(example, ops, DType::f64);
    for (const Node& node : graph.nodes()) {
      if (!node.is_leaf()) static_cast<void>(whole_instance(graph, ops, node, 0));
    }
  } catch (...) {
    return std::nullopt;  // The op needs other operands.
  }
  return example;
}

std::vector<GradientCheck> check_example_gradients(const OpExample& example, const OpRegistry& ops, Device& reference,
                                                   std::uint64_t seed) {
  const Graph graph = build_example(example, ops, DType::f64);
  RandomInputs inputs(seed, inputs_of(example), example.sizes);
  return check_gradients(graph, ops, reference, inputs, seed);
}

std::vector<KernelCheck> check_example_kernels(const OpExample& example, const OpRegistry& ops,
                                               const KernelRegistry& kernels, const std::shared_ptr<Device>& device,
                                               std::uint64_t seed) {
  KernelComparisons comparisons;
  for (const DType real : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    Graph graph = build_example(example, ops, real);
    decompose(graph, ops);
    if (!is_supported(graph, ops, *device, seed)) continue;
    const std::unique_ptr<Device> compared = compare_kernels(device, kernels, comparisons);
    GraphEvaluator evaluator(graph, ops, *compared, seed);
    for (std::size_t i = 0; i < example.operands.size(); ++i) {
      const std::int64_t count = element_count(shape_of(example.operands[i].dims, example.sizes));
      evaluator.set(operand_name(i), values_of(example, i, count, seed));
    }
    evaluator.run();
  }
  return comparisons.checks();
}

}  // namespace strata::host
