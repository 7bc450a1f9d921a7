#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

/// Base of the family. The normalised (last) dim must not be sharded.
class RmsNormOp : public NamedOp {
 public:
  using NamedOp::NamedOp;

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.whole = {space.operands[0].back()};
    return space;
  }
};

class RmsNorm final : public RmsNormOp {
 public:
  RmsNorm()
      : RmsNormOp("rms_norm",
                  "x […  E], gain [E] -> y […  E], inverse_rms […]: divides x by the root of the mean of its squares "
                  "over the last dim (attribute epsilon, added to the mean) and multiplies by gain; Zhang, Sennrich, "
                  "\"Root Mean Square Layer Normalization\", 2019. All but x and y are f32 where x is shorter.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require_float(types[0], node);
    require(!types[0].dims.empty(), node, "takes at least one dim");
    require(node.attributes.number("epsilon") > 0, node, "epsilon must be above 0");
    const DType full = statistic_type(types[0].dtype);
    require_same(types[1], {{types[0].dims.back()}, full}, node);
    return {types[0], {without_last(types[0].dims), full}};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto dy = context.cotangent(0);
      require_no_cotangent(context, 1);
      const Value x = context.operand(0);
      const Value gain = context.operand(1);
      const Value inverse_rms = context.result(1);
      if (context.needs_gradient(0)) {
        context.contribute(0, context.emit(0, "rms_norm_input_gradient", {*dy, x, gain, inverse_rms}, {})[0]);
      }
      if (context.needs_gradient(1)) {
        context.contribute(1, context.emit(1, "rms_norm_parameter_gradient", {*dy, x, inverse_rms}, {})[0]);
      }
    };
  }

  OperandPrecision operand_precision(int operand) const override {
    return operand == 0 ? OperandPrecision::any : OperandPrecision::unchanged;
  }
};

class RmsNormInputGradient final : public RmsNormOp {
 public:
  RmsNormInputGradient()
      : RmsNormOp("rms_norm_input_gradient", "dy […  E], x […  E], gain [E], inverse_rms […] -> dx […  E].") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 4);
    const DType full = statistic_type(types[0].dtype);
    require_same(types[1], types[0], node);
    require_same(types[2], {{types[0].dims.back()}, full}, node);
    require_same(types[3], {without_last(types[0].dims), full}, node);
    return {types[0]};
  }

  std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

class RmsNormParameterGradient final : public RmsNormOp {
 public:
  RmsNormParameterGradient()
      : RmsNormOp("rms_norm_parameter_gradient", "dy […  E], x […  E], inverse_rms […] -> dgain [E].") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 3);
    const DType full = statistic_type(types[0].dtype);
    require_same(types[1], types[0], node);
    require_same(types[2], {without_last(types[0].dims), full}, node);
    return {{{types[0].dims.back()}, full}};
  }
};

}  // namespace

void register_rms_norm(Registration& registration) {
  registration.add(std::make_unique<RmsNorm>());
  registration.add(std::make_unique<RmsNormInputGradient>());
  registration.add(std::make_unique<RmsNormParameterGradient>());
}

}  // namespace strata::ops
