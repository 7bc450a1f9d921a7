#include <algorithm>
#include <set>

#include "ops/op_base.hpp"
#include "strata/activation.hpp"

namespace strata::ops {
namespace {

double product_flops(const Graph& graph, const Node& node) {
  std::set<Dim> all;
  for (const std::size_t index : {0U, 1U}) {
    for (const Dim& dim : graph.type(node.operands[index]).dims) all.insert(dim);
  }
  double flops = 2;
  for (const Dim& dim : all) flops *= static_cast<double>(graph.sizes.at(dim));
  return flops;
}

/// The type of the product of the first two operands. \throws VerificationError if they do not match.
TensorType infer_product(const Types& types, const Node& node) {
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

/// The type of the product of the first two operands, with the third as bias.
TensorType infer_biased(const Types& types, const Node& node) {
  const TensorType product = infer_product(types, node);
  const Dims& bias = types[2].dims;
  require(bias.size() <= product.dims.size() && std::equal(bias.rbegin(), bias.rend(), product.dims.rbegin()) &&
              types[2].dtype == types[0].dtype,
          node, "bias " + to_string(types[2]) + " is not the end of " + to_string(product));
  return product;
}

/// OpDescription::iterate of the fused forms. They add or apply something to the finished sum, so the summed dims must
/// not be sharded.
void keep_summed_dims_whole(IterationSpace& space, const Node& /*node*/) {
  for (const Dim& dim : space.operands[0]) {
    if (!contains(space.results[0], dim)) space.whole.insert(dim);
  }
}

/// A product, or a fused form of one. The first two operands are multiplied.
OpDescription product_op(OpDescription op) {
  op.precision = OperandPrecision::low;
  op.flops = product_flops;
  op.is_product = true;
  return op;
}

/// Contributes x·dy to the weight's gradient and dy·w to the input's.
void contribute_products(GradientContext& context) {
  const Value dy = *context.cotangent(0);
  for (const int index : {0, 1}) {
    if (!context.needs_gradient(index)) continue;
    const std::string dims = join(context.graph().type(context.operand(index)).dims);
    const std::vector<Value> operands =
        index == 0 ? std::vector<Value>{dy, context.operand(1)} : std::vector<Value>{context.operand(0), dy};
    const Attributes attributes = gradient_attributes(context, index, {{"result", dims}});
    context.contribute(index, context.emit(index, "linear", operands, attributes)[0]);
  }
}

void linear_bias_rule(GradientContext& context) {
  contribute_products(context);
  contribute_addend(context, 2, *context.cotangent(0));
}

/// linear(x, w) -> t, add(t, b) -> y
std::optional<Attributes> fuse_bias(const FusionPair& pair) {
  const Dims& product = pair.consumer_operands.at(0);
  const Dims& bias = pair.consumer_operands.at(1);
  const bool is_end = bias.size() < product.size() && std::equal(bias.rbegin(), bias.rend(), product.rbegin());
  return is_end ? std::optional(pair.producer) : std::nullopt;
}

Types infer_linear_bias_activation(const Types& types, const Node& node) {
  require_known_activation(node);
  const TensorType product = infer_biased(types, node);
  const bool saves_input = node.attributes.has("saves_input") && node.attributes.flag("saves_input");
  return Types(saves_input ? 2 : 1, product);
}

/// linear_bias(x, w, b) -> u, activation(u) -> y. Also writes u if other instructions read it.
std::optional<Attributes> fuse_activation(const FusionPair& pair) {
  Attributes attributes = pair.producer;
  attributes.set("kind", pair.consumer.word("kind"));
  if (pair.keeps_product) attributes.set("saves_input", true);
  return attributes;
}

Types infer_linear_activation_gradient(const Types& types, const Node& node) {
  require_known_activation(node);
  const TensorType product = infer_product(types, node);
  require_same(types[2], product, node);
  return {product};
}

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
  add_op(
      registration,
      product_op({.name = "linear",
                  .documentation = "x, w -> y (attribute result: the dims of y; dtype, where it is not that of x): "
                                   "products of x and w summed over the dims that both have and y lacks.",
                  .operands = 2,
                  .infer = [](const Types& types, const Node& node) -> Types { return {infer_product(types, node)}; },
                  .gradient = contribute_products}));
  add_op(registration,
         product_op({.name = "linear_bias",
                     .documentation =
                         "x, w, b -> y (attribute result): linear plus a bias over the last dims of y. The summed dims "
                         "must be whole, since the bias is added once: the fused form of linear and add.",
                     .operands = 3,
                     .infer = [](const Types& types, const Node& node) -> Types { return {infer_biased(types, node)}; },
                     .gradient = linear_bias_rule,
                     .iterate = keep_summed_dims_whole,
                     .fusions = {{.producer = "linear", .consumer = "add", .operand = 0, .fit = fuse_bias}}}));
  add_op(registration,
         product_op({.name = "linear_bias_activation",
                     .documentation =
                         "x, w, b -> f(u) and, where attribute saves_input is true, u = linear_bias(x, w, b) "
                         "(attributes result, and kind of f as activation's): the fused form of linear_bias and "
                         "activation, chosen behind differentiation.",
                     .operands = 3,
                     .infer = infer_linear_bias_activation,
                     .iterate = keep_summed_dims_whole,
                     .fusions = {{.producer = "linear_bias",
                                  .consumer = "activation",
                                  .operand = 0,
                                  .can_keep_product = true,
                                  .fit = fuse_activation}}}));
  // Fused at the consumer for two reasons. Recomputation may produce u in between. And if the weight's gradient, which
  // is computed in between too, is the last reader of an operand, the result can reuse its memory.
  add_op(registration,
         product_op({.name = "linear_activation_gradient",
                     .documentation =
                         "x, w, u -> linear(x, w) · f'(u) (attributes result, and kind of f as activation's), u being "
                         "what the activation read: the fused form of linear and activation_gradient.",
                     .operands = 3,
                     .infer = infer_linear_activation_gradient,
                     .iterate = keep_summed_dims_whole,
                     .fusions = {{.producer = "linear",
                                  .consumer = "activation_gradient",
                                  .operand = 0,
                                  .place = FusionPattern::Place::consumer,
                                  .fit = fuse_activation}}}));
  registration.add(reference::kernel({"linear", "rr", "r", prepare_linear}));
  registration.add(reference::kernel({"linear_bias", "rrr", "r", prepare_linear_bias}));
  registration.add(reference::kernel({"linear_bias_activation", "rrr", "r*", prepare_linear_bias_activation, false}));
  registration.add(reference::kernel({"linear_activation_gradient", "rrr", "r", prepare_linear_activation_gradient}));
}

}  // namespace strata::ops
