#include "verify/graph_evaluator.hpp"

#include <algorithm>
#include <functional>

#include "runtime/element.hpp"
#include "strata/error.hpp"

namespace strata::host {

void upload(Device& device, void* memory, DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(dtype, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  }
  device.copy_from_host(StreamKind::compute, memory, bytes.data(), static_cast<std::int64_t>(bytes.size()));
}

std::vector<double> download(Device& device, const void* memory, DType dtype, std::int64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size_of(dtype));
  device.copy_to_host(StreamKind::compute, bytes.data(), memory, static_cast<std::int64_t>(bytes.size()));
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) values.push_back(load_element(dtype, bytes.data(), i));
  return values;
}

OpInstance whole_instance(const Graph& graph, const OpRegistry& registry, const Node& node, std::uint64_t seed) {
  const IterationSpace space = registry.get(node.op).iteration(graph, node);
  OpInstance instance;
  instance.op = node.op;
  instance.name = node.name;
  instance.attributes = node.attributes;
  instance.seed = seed;
  const auto describe = [&](const TensorType& type, const Dims& dims) {
    const Shape shape = shape_of(type.dims, graph.sizes);
    for (std::size_t i = 0; i < dims.size(); ++i) instance.index_maps[dims[i]] = IndexMap::whole(shape[i]);
    return OperandDescription{type.dtype, dims, shape};
  };
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    instance.operands.push_back(describe(graph.type(node.operands[i]), space.operands[i]));
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    instance.results.push_back(describe(node.results[i], space.results[i]));
  }
  if (instance.index_maps.contains("batch")) instance.micro_batch_dim = "batch";
  return instance;
}

GraphEvaluator::GraphEvaluator(const Graph& graph, const OpRegistry& registry, Device& device, std::uint64_t seed)
    : graph_(graph), device_(device) {
  for (const Node& node : graph.nodes()) {
    for (int result = 0; result < static_cast<int>(node.results.size()); ++result) {
      const Value value{node.id, result};
      const auto bytes =
          element_count(graph.shape(value)) * static_cast<std::int64_t>(size_of(graph.type(value).dtype));
      memory_[value] = device.allocate(bytes);
    }
    if (node.is_leaf()) continue;
    const OpInstance instance = whole_instance(graph, registry, node, seed);
    steps_.push_back({&node, device.prepare(instance), device.allocate(device.workspace_bytes(instance))});
  }
}

void GraphEvaluator::set(const std::string& leaf, const std::vector<double>& values) {
  for (const Node& node : graph_.nodes()) {
    if (!node.is_leaf() || node.name != leaf) continue;
    const Value value{node.id, 0};
    if (element_count(graph_.shape(value)) != static_cast<std::int64_t>(values.size())) {
      throw VerificationError("leaf '" + leaf + "' has another number of elements");
    }
    upload(device_, memory_.at(value).get(), graph_.type(value).dtype, values);
    return;
  }
  throw VerificationError("there is no leaf '" + leaf + "'");
}

std::vector<double> GraphEvaluator::get(Value value) const {
  return download(device_, memory_.at(value).get(), graph_.type(value).dtype, element_count(graph_.shape(value)));
}

void GraphEvaluator::run(const StepContext& context) {
  for (const Step& step : steps_) {
    std::vector<const void*> operands;
    std::vector<void*> results;
    for (const Value& operand : step.node->operands) operands.push_back(memory_.at(operand).get());
    for (int result = 0; result < static_cast<int>(step.node->results.size()); ++result) {
      results.push_back(memory_.at({step.node->id, result}).get());
    }
    step.kernel->launch({operands, results, step.workspace.get(), context});
  }
  device_.synchronize(StreamKind::compute);
}

double GraphEvaluator::scalar_sink(Sink::Kind kind) const {
  double sum = 0.0;
  for (const Sink& sink : graph_.sinks) {
    if (sink.kind == kind) sum += get(sink.value).at(0);
  }
  return sum;
}

std::vector<double> GraphEvaluator::parameter_gradient(const std::string& parameter) const {
  std::vector<double> sum;
  for (const Sink& sink : graph_.sinks) {
    if (sink.kind != Sink::Kind::parameter_gradient || sink.name != parameter) continue;
    const std::vector<double> term = get(sink.value);
    sum.resize(term.size());
    std::transform(sum.begin(), sum.end(), term.begin(), sum.begin(), std::plus<>());
  }
  return sum;
}

}  // namespace strata::host
