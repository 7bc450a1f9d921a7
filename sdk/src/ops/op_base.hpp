#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "strata/activation.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"
#include "strata/op.hpp"
#include "strata/registration.hpp"

namespace strata::ops {

/// Base of Strata's ops, which stores name and documentation.
class NamedOp : public OpDefinition {
 public:
  NamedOp(std::string name, std::string documentation)
      : name_(std::move(name)), documentation_(std::move(documentation)) {}
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string documentation() const override { return documentation_; }

 protected:
  /// \throws VerificationError that names the node if `holds` is false.
  static void require(bool holds, const Node& node, const std::string& what) {
    if (!holds) throw VerificationError("op " + node.op + " '" + node.name + "': " + what);
  }

  /// The types of exactly `count` operands.
  static std::vector<TensorType> operand_types(const Graph& graph, const Node& node, std::size_t count) {
    require(node.operands.size() == count, node,
            "takes " + std::to_string(count) + " operands, found " + std::to_string(node.operands.size()));
    std::vector<TensorType> types;
    for (const Value& operand : node.operands) types.push_back(graph.type(operand));
    return types;
  }

  static void require_same(const TensorType& found, const TensorType& expected, const Node& node) {
    require(found == expected, node, "expected " + to_string(expected) + ", found " + to_string(found));
  }

  static void require_dims(const TensorType& found, const Dims& expected, const Node& node) {
    require(found.dims == expected, node, "expected dims [" + join(expected) + "], found " + to_string(found));
  }

  static void require_float(const TensorType& type, const Node& node) {
    require(is_floating_point(type.dtype), node, "expected a floating-point operand, found " + to_string(type));
  }

  /// The type for accumulation and for statistics that the gradient needs: f32, or f64 if `type` is f64.
  static DType statistic_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

  /// The type in the attribute `dtype`, or `type` without it. Some ops can write a result in a wider type than their
  /// operands'.
  static DType result_type(const Node& node, DType type) {
    if (!node.attributes.has("dtype")) return type;
    const DType result = dtype_from_string(node.attributes.word("dtype"));
    require(is_floating_point(result), node, "the result has a floating-point type");
    return result;
  }

  /// The attributes of a node that computes the gradient of `operand`. For a parameter, adds the type in which its
  /// gradient is accumulated.
  static Attributes gradient_attributes(const GradientContext& context, int operand, Attributes attributes) {
    const Node& leaf = context.graph().node(context.operand(operand).node);
    if (!leaf.is_parameter()) return attributes;
    const DType type = leaf.results.front().dtype;
    if (type == DType::f64) return attributes;
    const DType gradient = context.graph().find_parameter(leaf.name)->gradient_type.value_or(statistic_type(type));
    if (gradient != type) attributes.set("dtype", std::string(to_string(gradient)));
    return attributes;
  }

  /// Checks that no gradient flows to result `index`, which exists for the backward pass only.
  static void require_no_cotangent(GradientContext& context, int index) {
    require(!context.cotangent(index).has_value(), context.node(),
            "has no gradient through result " + std::to_string(index));
  }

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

/// \throws VerificationError that names the node if the attribute `kind` is no known activation.
inline void require_known_activation(const Node& node) {
  try {
    static_cast<void>(activation_function(node.attributes.word("kind")));
  } catch (const VerificationError& error) {
    throw VerificationError("op " + node.op + " '" + node.name + "': " + error.what());
  }
}

/// True if `part` is `whole` without some of its dimensions, in the same order.
inline bool is_ordered_subset(const Dims& part, const Dims& whole) {
  std::size_t at = 0;
  for (const Dim& dim : whole) {
    if (at < part.size() && part[at] == dim) ++at;
  }
  return at == part.size();
}

}  // namespace strata::ops
