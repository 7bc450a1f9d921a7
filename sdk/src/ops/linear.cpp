#include <algorithm>
#include <set>

#include "ops/op_base.hpp"
#include "strata/activation.hpp"

namespace strata::ops {
namespace {

/// Base of the plain product and of its fused forms.
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
  bool is_product() const override { return true; }

 protected:
  /// The type of the product. \throws VerificationError if the operands do not match.
  static TensorType infer_product(const std::vector<TensorType>& types, const Node& node) {
    require_float(types[0], node);
    require(types[0].dtype == types[1].dtype, node,
            to_string(types[0]) + " and " + to_string(types[1]) + " differ in type");
    const Dims result = split_dims(node.attributes.word("result"));
    for (const Dim& dim : result) {
      require(contains(types[0].dims, dim) || contains(types[1].dims, dim), node, "no operand has dim '" + dim + "'");
    }
    for (const TensorType& type : types) {
      const Dims& other = (&type == types.data() ? types[1] : types[0]).dims;
      for (const Dim& dim : type.dims) {
        require(contains(result, dim) || contains(other, dim), node,
                "dim '" + dim + "' stands in one operand only and is not in the result");
      }
    }
    return {result, result_type(node, types[0].dtype)};
  }

  /// The attributes of a product fused with the activation after it.
  static Attributes with_kind(const FusionPair& pair) {
    Attributes attributes = pair.producer;
    attributes.set("kind", pair.consumer.word("kind"));
    return attributes;
  }

  /// Contributes x·dy to the weight's gradient and dy·w to the input's.
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

  GradientRule gradient() const override {
    return [](GradientContext& context) { contribute_products(context, *context.cotangent(0)); };
  }
};

/// Base of the fused forms. They add or apply something to the finished sum, so the contracted dims must not be
/// sharded.
class WholeLinearOp : public LinearOp {
 public:
  using LinearOp::LinearOp;

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    for (const Dim& dim : space.operands[0]) {
      if (!contains(space.results[0], dim)) space.whole.insert(dim);
    }
    return space;
  }

 protected:
  /// The type of the product of the first two operands, with the third as bias.
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

  /// linear(x, w) -> t, add(t, b) -> y
  std::vector<FusionPattern> fusions() const override {
    const auto fit = [](const FusionPair& pair) -> std::optional<Attributes> {
      const Dims& product = pair.consumer_operands.at(0);
      const Dims& bias = pair.consumer_operands.at(1);
      const bool is_end = bias.size() < product.size() && std::equal(bias.rbegin(), bias.rend(), product.rbegin());
      return is_end ? std::optional(pair.producer) : std::nullopt;
    };
    return {{.producer = "linear", .consumer = "add", .operand = 0, .fit = fit}};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const Value dy = *context.cotangent(0);
      contribute_products(context, dy);
      contribute_addend(context, 2, dy);
    };
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

  /// linear_bias(x, w, b) -> u, activation(u) -> y. Also writes u if other instructions read it.
  std::vector<FusionPattern> fusions() const override {
    const auto fit = [](const FusionPair& pair) -> std::optional<Attributes> {
      Attributes attributes = with_kind(pair);
      if (pair.keeps_product) attributes.set("saves_input", true);
      return attributes;
    };
    return {{.producer = "linear_bias", .consumer = "activation", .operand = 0, .can_keep_product = true, .fit = fit}};
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

  /// linear(x, w) -> t, activation_gradient(t, u) -> y. Placed at the consumer for two reasons. Recomputation may
  /// produce u in between. And if the weight's gradient, which is computed in between too, is the last reader of an
  /// operand, the result can reuse its memory.
  std::vector<FusionPattern> fusions() const override {
    const auto fit = [](const FusionPair& pair) -> std::optional<Attributes> { return with_kind(pair); };
    return {{.producer = "linear",
             .consumer = "activation_gradient",
             .operand = 0,
             .place = FusionPattern::Place::consumer,
             .fit = fit}};
  }
};

/// One loop of a nest: its length, and the distance between neighbours in x, w and the bias.
struct Loop {
  std::int64_t size = 1;
  std::int64_t x = 0;
  std::int64_t w = 0;
  std::int64_t bias = 0;
};

/// Nested loops over named dims, with their strides in x, w and the bias.
struct Loops {
  Dims dims;
  Shape shape;
  Strides x;
  Strides w;
  Strides bias;

  /// Adds the dims of `operand` that are not in `known`.
  void add_missing_dims(const OperandDescription& operand, const Dims& known) {
    for (std::size_t i = 0; i < operand.dims.size(); ++i) {
      if (contains(known, operand.dims[i]) || contains(dims, operand.dims[i])) continue;
      dims.push_back(operand.dims[i]);
      shape.push_back(operand.shape[i]);
    }
  }

  /// Takes the innermost loop out of the nest.
  Loop take_last() {
    if (shape.empty()) return {};
    const Loop last{shape.back(), x.back(), w.back(), bias.back()};
    for (auto* list : {&shape, &x, &w, &bias}) list->pop_back();
    return last;
  }
};

/// sums[result dims] = sum over all other dims of x · w: an einsum with the dims' names as letters. If `has_bias`, the
/// third operand is a bias over some dims of the result. make_store(launch) returns a function that stores the sum at
/// an index of the result.
template <class MakeStore>
Work prepare_sums(const OpInstance& op, bool has_bias, const MakeStore& make_store) {
  const OperandDescription& x = op.operands[0];
  const OperandDescription& w = op.operands[1];
  Loops kept{op.results[0].dims, op.results[0].shape, {}, {}, {}};
  Loops contracted;
  for (const OperandDescription* operand : {&x, &w}) contracted.add_missing_dims(*operand, kept.dims);
  for (Loops* loops : {&kept, &contracted}) {
    loops->x = strides_along(x, loops->dims);
    loops->w = strides_along(w, loops->dims);
    loops->bias = strides_along(has_bias ? op.operands[2] : OperandDescription(), loops->dims);
  }
  // The sums of a row of the result grow together, because a sum alone would wait for its own last addition.
  const Loop row = kept.take_last();
  const Loop inner = contracted.take_last();

  return [=](const Launch& launch) {
    const auto store = make_store(launch);
    const auto multiply = [&](const auto& x_values, const auto& w_values) {
      const std::int64_t row_count = element_count(kept.shape);
      const std::int64_t outer_count = element_count(contracted.shape);
      std::vector<double> sums(static_cast<std::size_t>(row.size));
      for (std::int64_t i = 0; i < row_count; ++i) {
        const std::int64_t bias_first = offset(i, kept.shape, kept.bias);
        const std::int64_t x_first = offset(i, kept.shape, kept.x);
        const std::int64_t w_first = offset(i, kept.shape, kept.w);
        for (std::int64_t c = 0; c < row.size; ++c) {
          sums[static_cast<std::size_t>(c)] = has_bias ? launch.operand(2)[bias_first + c * row.bias] : 0.0;
        }
        for (std::int64_t j = 0; j < outer_count; ++j) {
          const std::int64_t x_start = x_first + offset(j, contracted.shape, contracted.x);
          const std::int64_t w_start = w_first + offset(j, contracted.shape, contracted.w);
          for (std::int64_t k = 0; k < inner.size; ++k) {
            for (std::int64_t c = 0; c < row.size; ++c) {
              sums[static_cast<std::size_t>(c)] += x_values[x_start + k * inner.x + c * row.x] *  //
                                                   w_values[w_start + k * inner.w + c * row.w];
            }
          }
        }
        for (std::int64_t c = 0; c < row.size; ++c) store(i * row.size + c, sums[static_cast<std::size_t>(c)]);
      }
    };
    launch.with_operand(0, [&](const auto& x_values) {
      launch.with_operand(1, [&](const auto& w_values) { multiply(x_values, w_values); });
    });
  };
}

auto store_sum(const Launch& launch) {
  return [result = launch.result(0)](std::int64_t i, double sum) { result.set(i, sum); };
}

Work prepare_linear(const OpInstance& op) { return prepare_sums(op, false, store_sum); }

Work prepare_linear_bias(const OpInstance& op) { return prepare_sums(op, true, store_sum); }

Work prepare_linear_bias_activation(const OpInstance& op) {
  const auto activate = activation_function(op.attributes.word("kind")).value;
  if (op.results.size() == 1) {
    return prepare_sums(op, true, [activate](const Launch& launch) {
      return [activate, result = launch.result(0)](std::int64_t i, double u) { result.set(i, activate(u)); };
    });
  }
  return prepare_sums(op, true, [activate](const Launch& launch) {
    return [activate, result = launch.result(0), input = launch.result(1)](std::int64_t i, double u) {
      result.set(i, activate(u));
      input.set(i, u);
    };
  });
}

Work prepare_linear_activation_gradient(const OpInstance& op) {
  return prepare_sums(op, false,
                      [derivative = activation_function(op.attributes.word("kind")).derivative](const Launch& launch) {
                        return [derivative, result = launch.result(0), u = launch.operand(2)](
                                   std::int64_t i, double sum) { result.set(i, sum * derivative(u[i])); };
                      });
}

}  // namespace

void register_linear(Registration& registration) {
  registration.add(std::make_unique<Linear>());
  registration.add(std::make_unique<LinearBias>());
  registration.add(std::make_unique<LinearBiasActivation>());
  registration.add(std::make_unique<LinearActivationGradient>());
  registration.add(reference::kernel({"linear", "rr", "r", prepare_linear}));
  registration.add(reference::kernel({"linear_bias", "rrr", "r", prepare_linear_bias}));
  registration.add(reference::kernel({"linear_bias_activation", "rrr", "r*", prepare_linear_bias_activation, false}));
  registration.add(reference::kernel({"linear_activation_gradient", "rrr", "r", prepare_linear_activation_gradient}));
}

}  // namespace strata::ops
