#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

/// Base of the family. The normalised (last) dim must not be sharded.
class NormOp : public NamedOp {
 public:
  using NamedOp::NamedOp;

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.whole = {space.operands[0].back()};
    return space;
  }
};

class LayerNorm final : public NormOp {
 public:
  LayerNorm()
      : NormOp("layer_norm",
               "x […  E], gain [E], bias [E] -> y […  E], mean […], inverse_std […]: normalises the last dim "
               "(attribute epsilon); Ba, Kiros, Hinton, \"Layer Normalization\", 2016. All but x and y are f32 where x "
               "is shorter.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 3);
    require_float(types[0], node);
    require(!types[0].dims.empty(), node, "takes at least one dim");
    require(node.attributes.number("epsilon") > 0, node, "epsilon must be above 0");
    const DType full = statistic_type(types[0].dtype);
    const TensorType row{{types[0].dims.back()}, full};
    require_same(types[1], row, node);
    require_same(types[2], row, node);
    const TensorType statistic{without_last(types[0].dims), full};
    return {types[0], statistic, statistic};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto dy = context.cotangent(0);
      require_no_cotangent(context, 1);
      require_no_cotangent(context, 2);
      const Value x = context.operand(0);
      const Value mean = context.result(1);
      const Value inverse_std = context.result(2);
      if (context.needs_gradient(0)) {
        context.contribute(
            0, context.emit(0, "layer_norm_input_gradient", {*dy, x, context.operand(1), mean, inverse_std}, {})[0]);
      }
      const auto parameters = context.emit(1, "layer_norm_parameter_gradient", {*dy, x, mean, inverse_std}, {});
      context.contribute(1, parameters[0]);
      context.contribute(2, parameters[1]);
    };
  }

  OperandPrecision operand_precision(int operand) const override {
    return operand == 0 ? OperandPrecision::any : OperandPrecision::unchanged;
  }
};

class LayerNormInputGradient final : public NormOp {
 public:
  LayerNormInputGradient()
      : NormOp("layer_norm_input_gradient", "dy […  E], x […  E], gain [E], mean […], inverse_std […] -> dx […  E].") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 5);
    const DType full = statistic_type(types[0].dtype);
    require_same(types[1], types[0], node);
    require_same(types[2], {{types[0].dims.back()}, full}, node);
    require_same(types[3], {without_last(types[0].dims), full}, node);
    require_same(types[4], {without_last(types[0].dims), full}, node);
    return {types[0]};
  }

  std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

class LayerNormParameterGradient final : public NormOp {
 public:
  LayerNormParameterGradient()
      : NormOp("layer_norm_parameter_gradient",
               "dy […  E], x […  E], mean […], inverse_std […] -> dgain [E], dbias [E].") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 4);
    const DType full = statistic_type(types[0].dtype);
    require_same(types[1], types[0], node);
    require_same(types[2], {without_last(types[0].dims), full}, node);
    require_same(types[3], {without_last(types[0].dims), full}, node);
    const TensorType row{{types[0].dims.back()}, full};
    return {row, row};
  }
};

}  // namespace

void register_layer_norm(Registration& registration) {
  registration.add(std::make_unique<LayerNorm>());
  registration.add(std::make_unique<LayerNormInputGradient>());
  registration.add(std::make_unique<LayerNormParameterGradient>());
}

}  // namespace strata::ops
