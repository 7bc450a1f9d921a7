#include <algorithm>
#include <set>

#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

/// Shared by the plain product and its fused forms.
class LinearOp : public NamedOp {
 public:
  using NamedOp::NamedOp;

  Cost cost(const Graph& graph, const Node& node) const override {
    Cost cost = OpDefinition::cost(graph, node);
    std::set<Dim> all;
    for (const std::size_t index : {0U, 1U}) {
      for (const Dim& dim : graph.type(node.operands[index]).dims) all.insert(dim);
    }
    cost.flops = 2;
    for (const Dim& dim : all) cost.flops *= static_cast<double>(graph.sizes.at(dim));
    return cost;
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::low; }

 protected:
  /// The product's type. \throws VerificationError where the operands do not make one.
  static TensorType infer_product(const std::vector<TensorType>& types, const Node& node) {
    require_float(types[0], node);
    require(types[0].dtype == types[1].dtype, node,
            to_string(types[0]) + " and " + to_string(types[1]) + " differ in type");
    const Dims result = split_dims(node.attributes.word("result"));
    for (const Dim& dim : result) {
      require(find_dim(types[0].dims, dim) >= 0 || find_dim(types[1].dims, dim) >= 0, node,
              "no operand has dim '" + dim + "'");
    }
    for (const TensorType& type : types) {
      const Dims& other = (&type == types.data() ? types[1] : types[0]).dims;
      for (const Dim& dim : type.dims) {
        require(find_dim(result, dim) >= 0 || find_dim(other, dim) >= 0, node,
                "dim '" + dim + "' stands in one operand only and is not in the result");
      }
    }
    return {result, result_type(node, types[0].dtype)};
  }

  /// The weight's gradient is x·dy, the input's dy·w: both keep the operand that the other loses.
  static void contribute_products(GradientContext& context, Value dy) {
    for (const int index : {0, 1}) {
      if (!context.needs_gradient(index)) continue;
      const std::string dims = join(context.graph().type(context.operand(index)).dims);
      const std::vector<Value> operands =
          index == 0 ? std::vector<Value>{dy, context.operand(1)} : std::vector<Value>{context.operand(0), dy};
      const Attributes attributes = gradient_attributes(context, index, {{"result", dims}});
      context.contribute(index, context.emit(index, "linear", operands, attributes)[0]);
    }
  }
};

class Linear final : public LinearOp {
 public:
  Linear()
      : LinearOp(
            "linear",
            "x, w -> y (attribute result: the dims of y; dtype, where it is not that of x): products of x and w summed "
            "over the dims that both have and y lacks.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {infer_product(operand_types(graph, node, 2), node)};
  }

  void gradient(GradientContext& context) const override { contribute_products(context, *context.cotangent(0)); }
};

/// Shared by the fused forms, which do to a sum what can be done once only: the summed dims must be whole.
class WholeLinearOp : public LinearOp {
 public:
  using LinearOp::LinearOp;

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    for (const Dim& dim : space.operands[0]) {
      if (find_dim(space.results[0], dim) < 0) space.whole.insert(dim);
    }
    return space;
  }

 protected:
  /// The type of the product with the third operand as its bias.
  static TensorType infer_biased(const Graph& graph, const Node& node) {
    const auto types = operand_types(graph, node, 3);
    const TensorType product = infer_product(types, node);
    const Dims& bias = types[2].dims;
    require(bias.size() <= product.dims.size() && std::equal(bias.rbegin(), bias.rend(), product.dims.rbegin()) &&
                types[2].dtype == types[0].dtype,
            node, "bias " + to_string(types[2]) + " is not the end of " + to_string(product));
    return product;
  }
};

class LinearBias final : public WholeLinearOp {
 public:
  LinearBias()
      : WholeLinearOp(
            "linear_bias",
            "x, w, b -> y (attribute result): linear plus a bias over the last dims of y. The summed dims must "
            "be whole, since the bias is added once: the fused form of linear and add.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {infer_biased(graph, node)};
  }

  void gradient(GradientContext& context) const override {
    const Value dy = *context.cotangent(0);
    contribute_products(context, dy);
    if (!context.needs_gradient(2)) return;
    const Dims dims = context.graph().type(context.operand(2)).dims;
    const bool repeated = dims != context.graph().type(dy).dims;
    const Attributes attributes = gradient_attributes(context, 2, {{"result", join(dims)}});
    context.contribute(2, repeated ? context.emit(2, "reduce_sum", {dy}, attributes)[0] : dy);
  }
};

class LinearBiasActivation final : public WholeLinearOp {
 public:
  LinearBiasActivation()
      : WholeLinearOp(
            "linear_bias_activation",
            "x, w, b -> f(u) and, where attribute saves_input is true, u = linear_bias(x, w, b) (attributes "
            "result, and kind of f as activation's): the fused form of linear_bias and activation, chosen behind "
            "differentiation.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    require_known_activation(node);
    const TensorType product = infer_biased(graph, node);
    if (saves_input(node)) return {product, product};
    return {product};
  }

 private:
  static bool saves_input(const Node& node) {
    return node.attributes.has("saves_input") && node.attributes.flag("saves_input");
  }
};

class LinearActivationGradient final : public WholeLinearOp {
 public:
  LinearActivationGradient()
      : WholeLinearOp(
            "linear_activation_gradient",
            "x, w, u -> linear(x, w) · f'(u) (attributes result, and kind of f as activation's), u being what "
            "the activation read: the fused form of linear and activation_gradient.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    require_known_activation(node);
    const auto types = operand_types(graph, node, 3);
    const TensorType product = infer_product(types, node);
    require_same(types[2], product, node);
    return {product};
  }
};

}  // namespace

void register_linear(OpRegistry& registry) {
  registry.add(std::make_unique<Linear>());
  registry.add(std::make_unique<LinearBias>());
  registry.add(std::make_unique<LinearBiasActivation>());
  registry.add(std::make_unique<LinearActivationGradient>());
}

}  // namespace strata::ops
