#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

class Dropout final : public NamedOp {
 public:
  Dropout()
      : NamedOp(
            "dropout",
            "x -> x / (1-p) where the element is kept, else 0 (attribute p). The mask depends on seed, name, step and "
            "the element's global index only; applied to a gradient under the same name it is its own gradient.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 1);
    require_float(types[0], node);
    const double p = node.attributes.number("p");
    require(p >= 0 && p < 1, node, "p must be at least 0 and below 1");
    return {types[0]};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto dy = context.cotangent(0);
      context.contribute(0, context.emit(0, "dropout", {*dy}, context.node().attributes)[0]);
    };
  }

  std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::any; }
};

class DropoutAdd final : public NamedOp {
 public:
  DropoutAdd()
      : NamedOp("dropout_add",
                "x, residual -> residual + dropout(x) (attribute p): the fused form of dropout and add.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require_float(types[0], node);
    require_same(types[1], types[0], node);
    const double p = node.attributes.number("p");
    require(p >= 0 && p < 1, node, "p must be at least 0 and below 1");
    return {types[0]};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto dy = context.cotangent(0);
      context.contribute(0, context.emit(0, "dropout", {*dy}, context.node().attributes)[0]);
      context.contribute(1, *dy);
    };
  }

  /// dropout(x) -> t, add(residual, t) -> y. Placed at the consumer, because the residual may be computed in between.
  std::vector<FusionPattern> fusions() const override {
    const auto fit = [](const FusionPair& pair) -> std::optional<Attributes> {
      const bool is_alike = pair.consumer_operands.at(0) == pair.consumer_operands.at(1);
      return is_alike ? std::optional(pair.producer) : std::nullopt;
    };
    return {
        {.producer = "dropout", .consumer = "add", .operand = 1, .place = FusionPattern::Place::consumer, .fit = fit}};
  }

  std::vector<int> in_place_operands(int /*result*/) const override { return {0, 1}; }
  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::common; }
};

}  // namespace

void register_dropout(Registration& registration) {
  registration.add(std::make_unique<Dropout>());
  registration.add(std::make_unique<DropoutAdd>());
}

}  // namespace strata::ops
