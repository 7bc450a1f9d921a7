#include "mixed_types.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace precision {
namespace {

using namespace strata;

class TypeMixer {
 public:
  TypeMixer(Graph& graph, const OpRegistry& registry, DType compute)
      : graph_(graph), registry_(registry), compute_(compute) {
    for (const Node& node : graph.nodes()) {
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        original_[{node.id, static_cast<int>(i)}] = node.results[i].dtype;
      }
    }
  }

  void run(std::optional<DType> reduce) {
    store_parameters(reduce);
    for (const Node& node : std::vector<Node>(graph_.nodes())) {
      if (!node.is_leaf()) rewrite(node.id);
      placed_.push_back(graph_.node(node.id));
    }
    for (Sink& sink : graph_.sinks) sink.value = converted(sink.value, original_.at(sink.value), block_of(sink.value));
    graph_.replace_nodes(std::move(placed_));
  }

 private:
  [[nodiscard]] OperandPrecision precision(const Node& node, std::size_t operand) const {
    return registry_.get(node.op).operand_precision(static_cast<int>(operand));
  }

  /// Values that an op or the host needs in the type that the model chose.
  [[nodiscard]] std::set<Value> unchanged_values() const {
    std::set<Value> values;
    for (const Sink& sink : graph_.sinks) values.insert(sink.value);
    for (const Node& node : graph_.nodes()) {
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        if (precision(node, i) == OperandPrecision::unchanged) values.insert(node.operands[i]);
      }
    }
    return values;
  }

  void store_parameters(std::optional<DType> reduce) {
    const std::set<Value> unchanged = unchanged_values();
    for (Parameter& parameter : graph_.parameters) {
      TensorType& type = graph_.node(parameter.value.node).results.front();
      if (type.dtype != DType::f32 || unchanged.contains(parameter.value)) continue;
      type.dtype = compute_;
      parameter.gradient_type = reduce;
    }
  }

  void rewrite(int id) {
    const Node before = graph_.node(id);
    const DType common = common_type(before);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < before.operands.size(); ++i) {
      const Value operand = before.operands[i];
      operands.push_back(converted(operand, wanted_type(before, i, common), before.block));
    }
    graph_.node(id).operands = std::move(operands);
    graph_.node(id).results = registry_.get(before.op).infer(graph_, graph_.node(id));
  }

  [[nodiscard]] DType wanted_type(const Node& node, std::size_t operand, DType common) const {
    const Value value = node.operands[operand];
    const DType type = graph_.type(value).dtype;
    if (!is_floating_point(type)) return type;
    switch (precision(node, operand)) {
      case OperandPrecision::unchanged:
        return original_.at(value);
      case OperandPrecision::low:
        return type == DType::f32 ? compute_ : type;
      case OperandPrecision::any:
        return type;
      case OperandPrecision::common:
        return common;
    }
    return type;
  }

  /// The narrowest type that holds every operand of precision `common`. `compute` if there is no such operand.
  [[nodiscard]] DType common_type(const Node& node) const {
    std::set<DType> types;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const DType type = graph_.type(node.operands[i]).dtype;
      if (precision(node, i) == OperandPrecision::common && is_floating_point(type)) types.insert(type);
    }
    if (types.empty()) return compute_;
    if (types.contains(DType::f64)) return DType::f64;
    return types.size() == 1 ? *types.begin() : DType::f32;
  }

  /// `value` in `type`. If it has another type, emits a cast in `block`, which all readers of the block share.
  Value converted(Value value, DType type, int block) {
    if (graph_.type(value).dtype == type) return value;
    const auto [known, added] = casts_.try_emplace({value, type, block});
    if (!added) return known->second;
    const Node& producer = graph_.node(value.node);
    Node cast;
    cast.op = "cast";
    cast.name = producer.name + (value.result == 0 ? "" : "." + std::to_string(value.result)) + ".as_" +
                std::string(to_string(type)) + "." + std::to_string(block);
    cast.operands = {value};
    cast.attributes = {{"dtype", std::string(to_string(type))}};
    cast.block = block;
    cast.results = registry_.get(cast.op).infer(graph_, cast);
    const int id = graph_.append(std::move(cast));
    placed_.push_back(graph_.node(id));
    known->second = {id, 0};
    return known->second;
  }

  /// The block for the cast of a value that leaves the graph: its producer's, or block 0 for a leaf.
  [[nodiscard]] int block_of(Value value) const { return std::max(graph_.node(value.node).block, 0); }

  Graph& graph_;
  const OpRegistry& registry_;
  DType compute_;
  std::map<Value, DType> original_;
  std::map<std::tuple<Value, DType, int>, Value> casts_;
  std::vector<Node> placed_;
};

}  // namespace

void mix_types(Graph& graph, const OpRegistry& registry, DType compute, std::optional<DType> reduce) {
  TypeMixer(graph, registry, compute).run(reduce);
}

}  // namespace precision
