#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "lora.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/random.hpp"

namespace lora {

using namespace strata;

namespace {

bool is_linear(const Node& node) { return node.op == "linear"; }
bool is_lookup(const Node& node, int operand) { return node.op == "embedding" && operand == 0; }

}  // namespace

ParameterUses::ParameterUses(const Graph& graph) : graph_(graph) {
  std::map<int, int> parameter_of;  // by node: the parameter, or its cast
  for (const Parameter& parameter : graph.parameters) parameter_of[parameter.value.node] = parameter.value.node;
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const auto found = parameter_of.find(node.operands[i].node);
      if (found == parameter_of.end()) continue;
      if (node.op == "cast") {
        parameter_of[node.id] = found->second;
      } else {
        uses_[found->second].push_back({node.id, static_cast<int>(i)});
      }
    }
  }
}

const std::vector<ParameterUse>& ParameterUses::of(const Parameter& parameter) const {
  static const std::vector<ParameterUse> kNone;
  const auto found = uses_.find(parameter.value.node);
  return found == uses_.end() ? kNone : found->second;
}

bool ParameterUses::is_matrix_of_products(const Parameter& parameter) const {
  std::string reason;
  const std::vector<ParameterUse>& uses = of(parameter);
  return sides(parameter, reason) && std::all_of(uses.begin(), uses.end(), [&](const ParameterUse& use) {
           return is_linear(graph_.node(use.node));
         });
}

std::optional<MatrixSides> ParameterUses::sides(const Parameter& parameter, std::string& reason) const {
  std::optional<MatrixSides> common;
  const Dims& dims = graph_.type(parameter.value).dims;
  for (const ParameterUse& use : of(parameter)) {
    std::optional<MatrixSides> each = sides(dims, use, reason);
    if (!each) return std::nullopt;
    if (common && *common != *each) {
      reason = "its readers sum over different dimensions";
      return std::nullopt;
    }
    common = std::move(each);
  }
  if (!common) reason = "nothing reads it";
  return common;
}

std::optional<MatrixSides> ParameterUses::sides(const Dims& dims, const ParameterUse& use, std::string& reason) const {
  const Node& node = graph_.node(use.node);
  if (is_lookup(node, use.operand)) return MatrixSides{{dims.back()}, {dims.front()}};
  if (!is_linear(node)) {
    reason = "'" + node.name + "' reads it as an operand of " + node.op;
    return std::nullopt;
  }
  const Dims& input = graph_.type(node.operands[static_cast<std::size_t>(1 - use.operand)]).dims;
  MatrixSides sides;
  for (const Dim& dim : dims) {
    const bool is_result = contains(node.results.front().dims, dim);
    if (is_result && contains(input, dim)) {
      reason = "'" + node.name + "' has a matrix of its own for each '" + dim + "'";
      return std::nullopt;
    }
    (is_result ? sides.outputs : sides.contracted).push_back(dim);
  }
  if (sides.outputs.empty() || sides.contracted.empty()) {
    reason = "'" + node.name + "' reads it as a vector";
    return std::nullopt;
  }
  return sides;
}

namespace {

/// Uniform values within ±`bound`.
class UniformInitializer final : public Initializer {
 public:
  explicit UniformInitializer(double bound) : bound_(bound) {}

  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& shape,
                             std::uint64_t key) const override {
    std::uint64_t element = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      element = element * static_cast<std::uint64_t>(shape[i]) + static_cast<std::uint64_t>(index[i]);
    }
    return bound_ * (2 * ((random::word(key, element) + 0.5) * 0x1p-32) - 1);
  }

 private:
  double bound_;
};

/// True for an op that picks rows of its first operand.
bool is_lookup(const Node& node) { return node.op == "embedding"; }

std::string module_of(const std::string& parameter) {
  const std::string suffix = ".weight";
  return parameter.ends_with(suffix) ? parameter.substr(0, parameter.size() - suffix.size()) : parameter;
}

/// A dimension that the graph does not have yet.
Dim new_dim(const Graph& graph) {
  Dim dim = "lora_rank";
  for (int number = 2; graph.sizes.contains(dim); ++number) dim = "lora_rank" + std::to_string(number);
  return dim;
}

/// `dims` with the dimension `rank` in place of those that are not among `kept`.
Dims with_rank(const Dims& dims, const Dims& kept, const Dim& rank) {
  Dims result;
  for (const Dim& dim : dims) {
    const Dim& next = contains(kept, dim) ? dim : rank;
    if (!contains(result, next)) result.push_back(next);
  }
  return result;
}

Dims without(const Dims& dims, const Dims& removed) {
  Dims result;
  for (const Dim& dim : dims) {
    if (!contains(removed, dim)) result.push_back(dim);
  }
  return result;
}

}  // namespace

std::string name_of_a(const std::string& parameter) { return module_of(parameter) + ".lora_A.weight"; }
std::string name_of_b(const std::string& parameter) { return module_of(parameter) + ".lora_B.weight"; }

AdapterBuilder::AdapterBuilder(Graph& graph, const OpRegistry& registry, const Settings& settings)
    : graph_(graph), registry_(registry), settings_(settings), rank_(new_dim(graph)) {
  graph_.sizes[rank_] = settings.rank;
}

void AdapterBuilder::add(const Parameter& parameter, const MatrixSides& sides, const std::vector<ParameterUse>& uses) {
  const Parameter base = parameter;  // adding parameters moves it
  const Dims dims = graph_.type(base.value).dims;
  LowRankTerm term{base.name, name_of_a(base.name), name_of_b(base.name), rank_, settings_.scale, settings_.dropout};
  for (const ParameterUse& use : uses) (is_lookup(graph_.node(use.node)) ? term.is_table : term.is_matrix) = true;
  Adapter adapter;
  adapter.a = add_parameter(term.a, with_rank(dims, sides.contracted, rank_), base, start_of_a(sides.contracted));
  adapter.b = add_parameter(term.b, with_rank(dims, sides.outputs, rank_), base, Initialization::constant(0));
  adapter.contracted = sides.contracted;
  for (const ParameterUse& use : uses) readers_[use.node] = {adapters_.size(), use.operand};
  adapters_.push_back(std::move(adapter));
  graph_.low_rank_terms.push_back(term);
}

Initialization AdapterBuilder::start_of_a(const Dims& contracted) const {
  if (settings_.start == Start::normal) return Initialization::normal(1 / static_cast<double>(settings_.rank));
  const auto inputs = static_cast<double>(element_count(shape_of(contracted, graph_.sizes)));
  return Initialization::custom(std::make_shared<UniformInitializer>(1 / std::sqrt(inputs)));
}

Value AdapterBuilder::add_parameter(const std::string& name, const Dims& dims, const Parameter& of,
                                    Initialization initialization) {
  const TensorType type{dims, graph_.type(of.value).dtype};
  const Value value{graph_.append({.op = "parameter", .name = name, .results = {type}}), 0};
  leaves_.push_back(graph_.nodes().back());
  graph_.parameters.push_back({.name = name,
                               .value = value,
                               .initialization = std::move(initialization),
                               .decay = of.decay && settings_.decay,
                               .gradient_is_zero = of.gradient_is_zero,
                               .gradient_type = of.gradient_type});
  return value;
}

void AdapterBuilder::place() {
  const std::vector<Node> nodes = graph_.nodes();
  placed_ = leaves_;
  std::map<Value, Value> replaced;
  const auto current = [&](Value value) {
    const auto found = replaced.find(value);
    return found == replaced.end() ? value : found->second;
  };
  for (const Node& each : nodes) {
    if (std::any_of(leaves_.begin(), leaves_.end(), [&](const Node& leaf) { return leaf.id == each.id; })) continue;
    for (Value& operand : graph_.node(each.id).operands) operand = current(operand);
    const Node node = graph_.node(each.id);
    placed_.push_back(node);
    const auto reader = readers_.find(node.id);
    if (reader == readers_.end()) continue;
    const auto& [index, operand] = reader->second;
    replaced[{node.id, 0}] = adapted(node, adapters_[index], operand);
  }
  for (Sink& sink : graph_.sinks) sink.value = current(sink.value);
  graph_.replace_nodes(std::move(placed_));
}

Value AdapterBuilder::adapted(const Node& reader, const Adapter& adapter, int operand) {
  const TensorType result = reader.results.front();
  Value narrow;
  const bool picks_rows = is_lookup(reader);
  if (picks_rows) {
    const Value table = in_type_of(adapter.b, result.dtype, reader, ".lora_B");
    narrow = emit("embedding", {table, reader.operands[1]}, {}, reader, ".lora_B");
  } else {
    Value x = reader.operands[static_cast<std::size_t>(1 - operand)];
    if (settings_.dropout > 0 && graph_.mode == GraphMode::training) {
      x = emit("dropout", {x}, {{"p", settings_.dropout}}, reader, ".lora_dropout");
    }
    Dims dims = without(graph_.type(x).dims, adapter.contracted);
    dims.push_back(rank_);
    narrow = product(x, adapter.a, {{"result", join(dims)}}, reader, ".lora_A");
  }
  if (settings_.scale != 1) {
    narrow = emit(ops::kWeightedSum, {narrow}, {{"factor0", settings_.scale}}, reader, ".lora_scale");
  }
  Attributes attributes{{"result", join(result.dims)}};
  if (reader.attributes.has("dtype")) attributes.set("dtype", reader.attributes.word("dtype"));
  const Value wide = picks_rows ? product(narrow, adapter.a, attributes, reader, ".lora_A")
                                : product(narrow, adapter.b, attributes, reader, ".lora_B");
  return emit("add", {{reader.id, 0}, wide}, {}, reader, ".lora_add");
}

Value AdapterBuilder::product(Value x, Value weight, Attributes attributes, const Node& reader,
                              const std::string& suffix) {
  const Value typed = in_type_of(weight, graph_.type(x).dtype, reader, suffix);
  return emit("linear", {x, typed}, std::move(attributes), reader, suffix);
}

Value AdapterBuilder::in_type_of(Value value, DType type, const Node& reader, const std::string& suffix) {
  if (graph_.type(value).dtype == type) return value;
  return emit("cast", {value}, {{"dtype", std::string(to_string(type))}}, reader, suffix + "_cast");
}

Value AdapterBuilder::emit(const std::string& op, std::vector<Value> operands, Attributes attributes,
                           const Node& reader, const std::string& suffix) {
  const Value result = append_inferred(graph_, registry_,
                                       {.op = op,
                                        .name = reader.name + suffix,
                                        .operands = std::move(operands),
                                        .attributes = std::move(attributes),
                                        .block = reader.block})
                           .front();
  placed_.push_back(graph_.nodes().back());
  return result;
}

}  // namespace lora
