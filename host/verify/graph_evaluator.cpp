#include "verify/graph_evaluator.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/element.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

Value add_leaf(Graph& graph, const std::string& op, const std::string& name, const TensorType& type) {
  const Value value{graph.append({.op = op, .name = name, .results = {type}}), 0};
  if (op == "parameter") graph.parameters.push_back({.name = name, .value = value});
  return value;
}

bool is_read(const Graph& graph, Value value) {
  const auto reads = [&](const Node& node) { return contains(node.operands, value); };
  return std::ranges::any_of(graph.nodes(), reads) ||
         std::ranges::any_of(graph.sinks, [&](const Sink& sink) { return sink.value == value; });
}

/// Passes leaves to the gradient rule as gradients of the results, and makes the operands' gradients outputs.
class RuleContext final : public GradientContext {
 public:
  RuleContext(OpGraph& alone, const OpRegistry& registry, Node node, std::vector<std::optional<Value>> cotangents)
      : alone_(alone), registry_(registry), node_(std::move(node)), cotangents_(std::move(cotangents)) {}

  [[nodiscard]] const Graph& graph() const override { return alone_.graph; }
  [[nodiscard]] const Node& node() const override { return node_; }
  std::optional<Value> cotangent(int index) override { return cotangents_.at(static_cast<std::size_t>(index)); }
  [[nodiscard]] bool needs_gradient(int operand) const override { return alone_.differentiated.contains(operand); }

  std::vector<Value> emit(int index, const std::string& op, std::vector<Value> operands,
                          Attributes attributes) override {
    const bool is_final = index != kReadByGradients && alone_.graph.node(operand(index).node).is_parameter();
    return append_inferred(alone_.graph, registry_,
                           {.op = op,
                            .name = node_.name,
                            .operands = std::move(operands),
                            .attributes = std::move(attributes),
                            .block = node_.block,
                            .phase = is_final ? Phase::weight : Phase::backward});
  }

  void contribute(int index, Value gradient) override {
    if (!needs_gradient(index)) return;
    require_dims_of_operand(index, gradient);
    alone_.graph.sinks.push_back({Sink::Kind::output, alone_.gradient(index), gradient});
  }

 private:
  OpGraph& alone_;
  const OpRegistry& registry_;
  Node node_;
  std::vector<std::optional<Value>> cotangents_;
};

}  // namespace

void upload(Device& device, void* memory, DType dtype, const std::vector<double>& values) {
  const std::vector<std::byte> bytes = store_elements(dtype, values);
  device.copy_from_host(StreamKind::compute, memory, bytes.data(), static_cast<std::int64_t>(bytes.size()));
}

std::vector<double> download(Device& device, const void* memory, DType dtype, std::int64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size_of(dtype));
  device.copy_to_host(StreamKind::compute, bytes.data(), memory, static_cast<std::int64_t>(bytes.size()));
  return load_elements(dtype, bytes);
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
    std::ranges::transform(sum, term, sum.begin(), std::plus<>());
  }
  return sum;
}

OpGraph isolate(const Graph& graph, const Node& node, const std::set<int>& trained) {
  OpGraph alone;
  alone.graph.sizes = graph.sizes;
  Node copy = node;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value operand = node.operands[i];
    const TensorType& type = graph.type(operand);
    const bool is_parameter = graph.node(operand.node).is_parameter();
    // A running average gets a change instead of the derivative of the loss.
    const Parameter* parameter = is_parameter ? graph.find_parameter(graph.node(operand.node).name) : nullptr;
    const bool is_average = parameter != nullptr && parameter->role == ParameterRole::running_average;
    alone.operands.push_back("operand " + std::to_string(i) + " of " + node.name);
    copy.operands[i] = add_leaf(alone.graph, is_parameter ? "parameter" : "input", alone.operands.back(), type);
    if (trained.contains(operand.node) && is_floating_point(type.dtype) && !is_average)
      alone.differentiated.insert(static_cast<int>(i));
  }
  for (const Sink& sink : graph.sinks) {
    if (sink.kind == Sink::Kind::loss && sink.value.node == node.id) alone.loss = sink.value.result;
  }
  const auto results = static_cast<int>(node.results.size());
  std::vector<std::pair<std::string, TensorType>> leaves;
  for (int i = 0; i < results; ++i) {
    const TensorType& type = node.results[static_cast<std::size_t>(i)];
    const bool has_gradient = alone.loss < 0 && is_floating_point(type.dtype) && is_read(graph, {node.id, i});
    alone.cotangents.push_back(has_gradient ? "cotangent " + std::to_string(i) + " of " + node.name : "");
    alone.results.push_back("result " + std::to_string(i) + " of " + node.name);
    if (has_gradient) add_leaf(alone.graph, "input", alone.cotangents.back(), type);
  }
  const int id = alone.graph.append(std::move(copy));
  for (int i = 0; i < results; ++i) {
    alone.graph.sinks.push_back({Sink::Kind::output, alone.results[static_cast<std::size_t>(i)], {id, i}});
  }
  return alone;
}

void add_gradients(OpGraph& alone, const OpRegistry& registry) {
  const Node node = alone.graph.node(alone.graph.sinks.front().value.node);
  const GradientRule rule = registry.get(node.op).gradient();
  if (!rule) throw VerificationError("op '" + node.op + "' has no gradient");
  std::vector<std::optional<Value>> cotangents;
  for (const std::string& name : alone.cotangents) {
    std::optional<Value> leaf;
    for (const Node& each : alone.graph.nodes()) {
      if (!name.empty() && each.name == name) leaf = Value{each.id, 0};
    }
    cotangents.push_back(leaf);
  }
  RuleContext context(alone, registry, node, std::move(cotangents));
  rule(context);
  verify(alone.graph, registry, "the gradient rule of op '" + node.op + "'");
}

}  // namespace strata::host
