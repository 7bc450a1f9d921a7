#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "strata/activation.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"
#include "strata/op.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::ops {

// Every file of ops also has reference kernels.  NOLINTNEXTLINE(google-build-using-namespace)
using namespace reference;

using Types = std::vector<TensorType>;

/// \throws VerificationError that names the node if `holds` is false.
inline void require(bool holds, const Node& node, const std::string& what) {
  if (!holds) throw VerificationError("op " + node.op + " '" + node.name + "': " + what);
}

/// The types of exactly `count` operands.
inline Types operand_types(const Graph& graph, const Node& node, std::size_t count) {
  require(node.operands.size() == count, node,
          "takes " + std::to_string(count) + " operands, found " + std::to_string(node.operands.size()));
  Types types;
  for (const Value& operand : node.operands) types.push_back(graph.type(operand));
  return types;
}

inline void require_same(const TensorType& found, const TensorType& expected, const Node& node) {
  require(found == expected, node, "expected " + to_string(expected) + ", found " + to_string(found));
}

inline void require_float(const TensorType& type, const Node& node) {
  require(is_floating_point(type.dtype), node, "expected a floating-point operand, found " + to_string(type));
}

/// The type of the operands, which all have the same floating-point type.
inline TensorType common_type(const Types& types, const Node& node) {
  require_float(types[0], node);
  for (const TensorType& type : types) require_same(type, types[0], node);
  return types[0];
}

inline void require_dims(const TensorType& found, const Dims& expected, const Node& node) {
  require(found.dims == expected, node, "expected dims [" + join(expected) + "], found " + to_string(found));
}

/// The type for accumulation and for statistics that the gradient needs: f32, or f64 if `type` is f64.
inline DType statistic_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

/// The type in the attribute `dtype`, or `type` without it. Some ops can write a result in a wider type than their
/// operands'.
inline DType result_type(const Node& node, DType type) {
  if (!node.attributes.has("dtype")) return type;
  const DType result = dtype_from_string(node.attributes.word("dtype"));
  require(is_floating_point(result), node, "the result has a floating-point type");
  return result;
}

/// The attributes of a node that computes the gradient of `operand`. For a parameter, adds the type in which its
/// gradient is accumulated.
inline Attributes gradient_attributes(const GradientContext& context, int operand, Attributes attributes) {
  const Node& leaf = context.graph().node(context.operand(operand).node);
  if (!leaf.is_parameter()) return attributes;
  const DType type = leaf.results.front().dtype;
  if (type == DType::f64) return attributes;
  const DType gradient = context.graph().find_parameter(leaf.name)->gradient_type.value_or(statistic_type(type));
  if (gradient != type) attributes.set("dtype", std::string(to_string(gradient)));
  return attributes;
}

/// Checks that no gradient flows to result `index`, which exists for the backward pass only.
inline void require_no_cotangent(GradientContext& context, int index) {
  require(!context.cotangent(index).has_value(), context.node(),
          "has no gradient through result " + std::to_string(index));
}

/// Base of Strata's ops, which stores name and documentation.
class NamedOp : public OpDefinition {
 public:
  NamedOp(std::string name, std::string documentation)
      : name_(std::move(name)), documentation_(std::move(documentation)) {}
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string documentation() const override { return documentation_; }

 private:
  std::string name_;
  std::string documentation_;
};

/// Splits an attribute such as "batch seq embed" into dims.
inline Dims split_dims(const std::string& text) {
  std::istringstream words(text);
  Dims dims;
  for (std::string word; words >> word;) dims.push_back(word);
  return dims;
}

inline Dims without_last(Dims dims) {
  dims.pop_back();
  return dims;
}

/// An op as a value. What it leaves out is as in OpDefinition.
struct OpDescription {
  std::string name;
  std::string documentation;
  std::size_t operands = 1;
  /// Operands that may follow: none or all of them.
  std::size_t optional_operands = 0;
  /// Whether i32 targets may follow, one for each row of the first operand.
  bool takes_targets = false;
  /// The types of the results for those of the operands, apart from targets.
  std::function<Types(const Types& types, const Node& node)> infer = {};
  /// The same for an op that needs the sizes of dims.
  std::function<Types(const Graph& graph, const Types& types, const Node& node)> infer_sized = {};
  /// The operands whose memory any result may reuse.
  std::vector<int> in_place = {};
  /// The operands whose memory each result may reuse, for an op whose results differ in that.
  std::vector<std::vector<int>> in_place_by_result = {};
  /// The precision of the first operands, if it is another one than that of the others.
  std::vector<OperandPrecision> first_precisions = {};
  OperandPrecision precision = OperandPrecision::unchanged;
  GradientRule gradient = {};
  Decomposition decomposition = {};
  Reduction reduction = Reduction::sum;
  /// The operands that may be partial.
  std::set<int> partial_operands = {};
  /// Changes the iteration space, such as which dims are whole.
  void (*iterate)(IterationSpace& space, const Node& node) = nullptr;
  /// The floating-point operations of a node.
  std::function<double(const Graph& graph, const Node& node)> flops = {};
  /// The operand that only chooses.
  int chooses = -1;
  std::optional<RoutedRows> routed_rows = {};
  bool is_product = false;
  std::vector<FusionPattern> fusions = {};
};

class DescribedOp : public NamedOp {
 public:
  explicit DescribedOp(OpDescription description)
      : NamedOp(description.name, description.documentation), is_(std::move(description)) {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const bool has_targets =
        is_.takes_targets && !node.operands.empty() && graph.type(node.operands.back()).dtype == DType::i32;
    if (!has_targets) return infer_without_targets(graph, node);
    Node others = node;
    others.operands.pop_back();
    Types results = infer_without_targets(graph, others);
    require_dims(graph.type(node.operands.back()), without_last(graph.type(node.operands[0]).dims), node);
    return results;
  }
  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.reduction = is_.reduction;
    space.partial_operands = is_.partial_operands;
    if (is_.iterate != nullptr) is_.iterate(space, node);
    return space;
  }
  Cost cost(const Graph& graph, const Node& node) const override {
    Cost cost = OpDefinition::cost(graph, node);
    if (is_.flops) cost.flops = is_.flops(graph, node);
    return cost;
  }
  GradientRule gradient() const override { return is_.gradient; }
  Decomposition decomposition() const override { return is_.decomposition; }
  std::vector<int> in_place_operands(int result) const override {
    return is_.in_place_by_result.empty() ? is_.in_place : is_.in_place_by_result.at(static_cast<std::size_t>(result));
  }
  OperandPrecision operand_precision(int operand) const override {
    const auto index = static_cast<std::size_t>(operand);
    return index < is_.first_precisions.size() ? is_.first_precisions[index] : is_.precision;
  }
  bool only_chooses(int operand) const override { return operand == is_.chooses; }
  std::optional<RoutedRows> routed_rows() const override { return is_.routed_rows; }
  bool is_product() const override { return is_.is_product; }
  std::vector<FusionPattern> fusions() const override { return is_.fusions; }

 private:
  [[nodiscard]] Types infer_without_targets(const Graph& graph, const Node& node) const {
    const std::size_t most = is_.operands + is_.optional_operands;
    const Types types = operand_types(graph, node, node.operands.size() == most ? most : is_.operands);
    return is_.infer ? is_.infer(types, node) : is_.infer_sized(graph, types, node);
  }

  OpDescription is_;
};

template <class Op = DescribedOp>
void add_op(Registration& registration, OpDescription description) {
  registration.add(std::make_unique<Op>(std::move(description)));
}

/// \throws VerificationError that names the node if the attribute `kind` is no known activation.
inline void require_known_activation(const Node& node) {
  try {
    static_cast<void>(activation_function(node.attributes.word("kind")));
  } catch (const VerificationError& error) {
    throw VerificationError("op " + node.op + " '" + node.name + "': " + error.what());
  }
}

/// Contributes the gradient of an operand that is repeated and added to a result of the gradient `dy`.
inline void contribute_addend(GradientContext& context, int operand, Value dy) {
  if (!context.needs_gradient(operand)) return;
  const Dims dims = context.graph().type(context.operand(operand)).dims;
  if (dims == context.graph().type(dy).dims) return context.contribute(operand, dy);
  const Attributes attributes = gradient_attributes(context, operand, {{"result", join(dims)}});
  context.contribute(operand, context.emit(operand, "reduce_sum", {dy}, attributes)[0]);
}

/// True if `part` is `whole` without some of its dimensions, in the same order.
inline bool is_ordered_subset(const Dims& part, const Dims& whole) {
  std::size_t at = 0;
  for (const Dim& dim : whole) {
    if (at < part.size() && part[at] == dim) ++at;
  }
  return at == part.size();
}

template <class Function, std::size_t... Operand>
Work map_operands(std::int64_t count, const Function& function, std::index_sequence<Operand...> /*operands*/) {
  return [count, function](const Launch& launch) {
    const std::array<Reader, sizeof...(Operand)> x{launch.operand(Operand)...};
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, function(x[Operand][i]...));
  };
}

/// y[i] = function(x0[i], x1[i], …) of the first kOperands operands.
template <std::size_t kOperands, class Function>
Work map_elements(const OpInstance& op, const Function& function) {
  return map_operands(elements(op.results[0]), function, std::make_index_sequence<kOperands>{});
}

}  // namespace strata::ops
