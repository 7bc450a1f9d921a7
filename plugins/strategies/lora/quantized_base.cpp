#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "lora.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace lora {

using namespace strata;

namespace {

/// Initial values of the codes or the scales of a parameter.
class QuantizedInitializer final : public DerivedInitializer {
 public:
  QuantizedInitializer(Source source, const BlockedWeight& weight, bool is_codes)
      : source_(std::move(source)), weight_(weight), is_codes_(is_codes) {}

  [[nodiscard]] const Source& source() const override { return source_; }

  [[nodiscard]] std::vector<float> derive(std::span<const float> source) const override {
    if (!is_codes_) return weight_scales(weight_, source);
    const std::vector<std::int8_t> codes = encode_weight(weight_, source).codes;
    return {codes.begin(), codes.end()};
  }

 private:
  Source source_;
  BlockedWeight weight_;
  bool is_codes_;
};

class ParameterQuantizer {
 public:
  ParameterQuantizer(Graph& graph, const OpRegistry& registry, const WeightBlocks& blocks)
      : graph_(graph), registry_(registry), blocks_(blocks) {
    for (const Parameter& parameter : graph.parameters) {
      for (const Dim& dim : graph.type(parameter.value).dims) ++parameters_with_[dim];
    }
  }

  void run(const std::vector<std::string>& names) {
    std::vector<Parameter> parameters;
    const std::set<std::string> quantized(names.begin(), names.end());
    for (const Parameter& parameter : std::vector<Parameter>(std::move(graph_.parameters))) {
      if (!quantized.contains(parameter.name)) {
        parameters.push_back(parameter);
        continue;
      }
      for (Parameter& part : code(parameter)) parameters.push_back(std::move(part));
    }
    graph_.parameters = std::move(parameters);
    place();
  }

 private:
  /// A parameter in two parts.
  struct QuantizedParameter {
    std::string name;
    TensorType type;
    Dim along;
    Value codes;
    Value scales;
  };

  /// Adds the leaves of codes and scales. \return their parameters.
  std::vector<Parameter> code(const Parameter& parameter) {
    const TensorType type = graph_.type(parameter.value);
    const std::size_t along = dim_to_divide(type.dims);
    const Dim& dim = type.dims[along];
    const Shape shape = graph_.shape(parameter.value);
    const BlockedWeight weight(blocks_, shape, along);
    const auto part = [&](bool is_codes) {
      Dims dims = type.dims;
      dims[along] = is_codes ? sized_dim(dim + "_bytes", blocks_.bytes(weight.length))
                             : sized_dim(dim + "_blocks", blocks_.scales(weight.length));
      const DType scale_type = type.dtype == DType::f64 ? DType::f64 : DType::f32;
      Parameter made = parameter;
      made.name = parameter.name + (is_codes ? ".codes" : ".scales");
      made.value = add_leaf(made.name, {std::move(dims), is_codes ? DType::i8 : scale_type});
      made.initialization = Initialization::custom(std::make_shared<QuantizedInitializer>(
          DerivedInitializer::Source{parameter.name, shape, parameter.initialization}, weight, is_codes));
      return made;
    };
    const std::vector<Parameter> parts{part(true), part(false)};
    quantized_[parameter.value.node] = {parameter.name, type, dim, parts[0].value, parts[1].value};
    return parts;
  }

  [[nodiscard]] std::size_t dim_to_divide(const Dims& dims) const {
    const auto found = std::max_element(dims.begin(), dims.end(), [&](const Dim& a, const Dim& b) {
      return parameters_with_.at(a) < parameters_with_.at(b);
    });
    return static_cast<std::size_t>(found - dims.begin());
  }

  /// A dimension of this size with this name, or with a number behind it if the graph has another one.
  Dim sized_dim(const Dim& wanted, std::int64_t size) {
    Dim dim = wanted;
    for (int number = 2; graph_.sizes.contains(dim) && graph_.sizes.at(dim) != size; ++number) {
      dim = wanted + std::to_string(number);
    }
    graph_.sizes[dim] = size;
    return dim;
  }

  Value add_leaf(const std::string& name, TensorType type) {
    const int id = graph_.append({.op = "parameter", .name = name, .results = {std::move(type)}});
    leaves_.push_back(graph_.node(id));
    return {id, 0};
  }

  /// Places the new leaves first, and each decoding before the first reader in its block.
  void place() {
    placed_ = leaves_;
    const std::set<int> added = [&] {
      std::set<int> ids;
      for (const Node& leaf : leaves_) ids.insert(leaf.id);
      return ids;
    }();
    for (Node node : std::vector<Node>(graph_.nodes())) {
      if (added.contains(node.id) || quantized_.contains(node.id)) continue;
      for (Value& operand : node.operands) {
        const auto found = quantized_.find(operand.node);
        if (found != quantized_.end()) operand = dequantized(found->second, node.block);
      }
      placed_.push_back(std::move(node));
    }
    graph_.replace_nodes(std::move(placed_));
  }

  Value dequantized(const QuantizedParameter& parameter, int block) {
    const auto [known, is_new] = dequantized_.try_emplace({parameter.codes.node, block});
    if (!is_new) return known->second;
    Attributes attributes{{"result", join(parameter.type.dims)}, {"along", parameter.along}};
    blocks_.add_to(attributes);
    if (graph_.type(parameter.scales).dtype != parameter.type.dtype) {
      attributes.set("dtype", std::string(to_string(parameter.type.dtype)));
    }
    known->second = append_inferred(graph_, registry_,
                                    {.op = kDequantizeWeight,
                                     .name = parameter.name + ".decoded." + std::to_string(block),
                                     .operands = {parameter.codes, parameter.scales},
                                     .attributes = std::move(attributes),
                                     .block = block})
                        .front();
    placed_.push_back(graph_.nodes().back());
    return known->second;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  WeightBlocks blocks_;
  /// Number of parameters that have a dimension.
  std::map<Dim, int> parameters_with_;
  std::map<int, QuantizedParameter> quantized_;  // by the node of the replaced parameter
  std::map<std::pair<int, int>, Value> dequantized_;
  std::vector<Node> leaves_;
  std::vector<Node> placed_;
};

/// The forward nodes that depend on quantized parameters alone: dequantizations and casts of their results.
std::set<int> dequantization_nodes(const Graph& graph) {
  std::set<int> nodes;
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::forward) continue;
    const bool is_cast = node.op == "cast" && nodes.contains(node.operands.front().node);
    if (is_dequantization(node) || is_cast) nodes.insert(node.id);
  }
  return nodes;
}

class BackwardDequantization {
 public:
  explicit BackwardDequantization(Graph& graph) : graph_(graph), dequantizations_(dequantization_nodes(graph)) {}

  void run() {
    for (Node node : std::vector<Node>(graph_.nodes())) {
      if (!node.is_leaf() && node.phase != Phase::forward) {
        for (Value& operand : node.operands) operand = again(operand, node.block);
      }
      placed_.push_back(std::move(node));
    }
    graph_.replace_nodes(std::move(placed_));
  }

 private:
  Value again(Value value, int block) {
    if (!dequantizations_.contains(value.node)) return value;
    const auto known = clones_.find({value.node, block});
    if (known != clones_.end()) return {known->second, value.result};
    Node node = graph_.node(value.node);
    for (Value& operand : node.operands) operand = again(operand, block);
    node.recomputes = value.node;
    node.phase = Phase::backward;
    node.block = block;
    node.id = graph_.append(node);
    clones_[{value.node, block}] = node.id;
    placed_.push_back(node);
    return {node.id, value.result};
  }

  Graph& graph_;
  std::set<int> dequantizations_;
  std::map<std::pair<int, int>, int> clones_;  // by forward node and block
  std::vector<Node> placed_;
};

}  // namespace

bool is_dequantization(const Node& node) { return node.op == kDequantizeWeight; }

void quantize_parameters(Graph& graph, const OpRegistry& registry, const std::vector<std::string>& names,
                         const WeightBlocks& blocks) {
  ParameterQuantizer(graph, registry, blocks).run(names);
}

void dequantize_again(Graph& graph) { BackwardDequantization(graph).run(); }

}  // namespace lora
