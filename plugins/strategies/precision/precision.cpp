#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/graph.hpp"
#include "strata/op.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace precision {
namespace {

using namespace strata;

/// Assigns the types of mixed precision to the f32 values of a forward graph, as each op declares for its operands
/// (OperandPrecision), and inserts casts. Parameters that no op needs in f32 are stored in `compute`. Their
/// gradients are accumulated and reduced in `reduce` (empty: f32). Values that leave the graph keep their type.
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
    const std::string name = producer.name + (value.result == 0 ? "" : "." + std::to_string(value.result)) + ".as_" +
                             std::string(to_string(type)) + "." + std::to_string(block);
    known->second = append_inferred(graph_, registry_,
                                    {.op = "cast",
                                     .name = name,
                                     .operands = {value},
                                     .attributes = {{"dtype", std::string(to_string(type))}},
                                     .block = block})
                        .front();
    placed_.push_back(graph_.nodes().back());
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

bool has_parameter_of(const Graph& graph, bool (*holds)(DType)) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(),
                     [&](const Parameter& parameter) { return holds(graph.type(parameter.value).dtype); });
}

bool is_f64(DType type) { return type == DType::f64; }
bool is_short(DType type) { return is_floating_point(type) && size_of(type) < size_of(DType::f32); }

/// The plugin's options.
struct Settings {
  DType compute = DType::bf16;
  /// Type in which gradients are accumulated and reduced. Empty: f32.
  std::optional<DType> reduce;
  std::optional<LossScaling> loss_scaling;
};

Settings read_settings(const Options& options) {
  Settings settings;
  const std::string& compute = options.word("compute");
  settings.compute = compute == "fp16" ? DType::f16 : dtype_from_string(compute);
  if (options.word("reduce") == "bf16") settings.reduce = DType::bf16;
  std::string scaling = options.word("loss_scale");
  if (scaling == "auto") scaling = settings.compute == DType::f16 ? "dynamic" : "off";
  if (scaling != "off") {
    LossScaling& loss = settings.loss_scaling.emplace();
    loss.initial = options.number("initial_scale");
    loss.dynamic = scaling == "dynamic";
    loss.growth = options.number("growth_factor");
    loss.backoff = options.number("backoff_factor");
    loss.interval = static_cast<int>(options.integer("growth_interval"));
  }
  return settings;
}

/// Mixed precision (Micikevicius et al., "Mixed Precision Training", ICLR 2018). Matrix products, attention and
/// activations use a short type. Normalisation, loss, sums of gradients and the optimizer use f32.
class MixedPrecision final : public Strategy {
 public:
  static OptionSchema schema() {
    return {
        option::with_role(OptionRole::compute_type,
                          option::word("compute", "bf16",
                                       "Type of matrix products, attention and activations, also of those between "
                                       "blocks.",
                                       {"bf16", "fp16", "f32"})),
        option::word(
            "reduce", "f32",
            "Type in which gradients of parameters in the compute type are accumulated over micro-batches and reduced "
            "over ranks.",
            {"f32", "bf16"}),
        option::word(
            "loss_scale", "auto",
            "How the loss, and with it every gradient, is scaled: auto is dynamic for fp16 and off for the others.",
            {"auto", "off", "static", "dynamic"}),
        option::number("initial_scale", 65536, 1, 0x1p40,
                       "The static scale of the mean loss, or the first value of a dynamic one."),
        option::number("growth_factor", 2, 1, 1024, "Multiplies a dynamic scale after growth_interval good steps."),
        option::number("backoff_factor", 0.5, 0.001, 0.999,
                       "Multiplies a dynamic scale after a step whose gradient was not finite."),
        option::integer("growth_interval", 2000, 1, 1e9, "Good steps in a row after which a dynamic scale grows.")};
  }

  explicit MixedPrecision(const Options& options) : settings_(read_settings(options)) {}

  /// Assigns types. In an f64 graph it only sets up loss scaling.
  void rewrite_forward(Graph& graph, const OpRegistry& registry) const override {
    if (graph.loss_scaling && settings_.loss_scaling) {
      throw ConfigurationError("a strategy before this one scales the loss already; set loss_scale = \"off\" in one");
    }
    if (settings_.loss_scaling) graph.loss_scaling = settings_.loss_scaling;
    if (has_parameter_of(graph, is_f64)) return;
    if (has_parameter_of(graph, is_short)) {
      throw ConfigurationError("parameters have a type shorter than f32 already; one strategy chooses types");
    }
    TypeMixer(graph, registry, settings_.compute).run(settings_.reduce);
  }

 private:
  Settings settings_;
};

using PrecisionFactory = FactoryOf<StrategyFactory, MixedPrecision>;

}  // namespace
}  // namespace precision

STRATA_PLUGIN(strategy, "precision", "0.1.0", "Apache-2.0",
              "Mixed precision: bf16 or fp16 compute, f32 master weights and reductions, loss scaling.",
              precision::PrecisionFactory);
