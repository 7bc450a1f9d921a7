#include <cmath>
#include <functional>

#include "ops/op_base.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::ops {
namespace {

/// x and y, which may be repeated over dims of x that it lacks.
Types infer_repeated(const Types& types, const Node& node) {
  require_float(types[0], node);
  require(types[0].dtype == types[1].dtype && is_ordered_subset(types[1].dims, types[0].dims), node,
          "takes two operands of one type, and the dims of the second among those of the first in the same order; "
          "found " +
              to_string(types[0]) + " and " + to_string(types[1]));
  return {types[0]};
}

void add_rule(GradientContext& context) {
  const Value dy = *context.cotangent(0);
  context.contribute(0, dy);
  contribute_addend(context, 1, dy);
}

Types infer_reduce_sum(const Types& types, const Node& node) {
  const Dims result = split_dims(node.attributes.word("result"));
  require(is_ordered_subset(result, types[0].dims), node,
          "[" + join(result) + "] is no part of " + to_string(types[0]));
  return {{result, result_type(node, types[0].dtype)}};
}

/// The attributes of a gradient with the dims of the operand, and in its type unless it is a parameter.
Attributes like_operand(const GradientContext& context) {
  const TensorType& type = context.graph().type(context.operand(0));
  return gradient_attributes(context, 0, {{"result", join(type.dims)}, {"dtype", std::string(to_string(type.dtype))}});
}

void reduce_sum_rule(GradientContext& context) {
  context.contribute(0, context.emit(0, "repeat", {*context.cotangent(0)}, like_operand(context))[0]);
}

Types infer_repeat(const Types& types, const Node& node) {
  require_float(types[0], node);
  const Dims result = split_dims(node.attributes.word("result"));
  require(is_ordered_subset(types[0].dims, result), node,
          to_string(types[0]) + " is no part of [" + join(result) + "]");
  return {{result, result_type(node, types[0].dtype)}};
}

void repeat_rule(GradientContext& context) {
  context.contribute(0, context.emit(0, "reduce_sum", {*context.cotangent(0)}, like_operand(context))[0]);
}

Types infer_dot(const Types& types, const Node& node) {
  require_float(types[0], node);
  require_same(types[1], types[0], node);
  static_cast<void>(node.attributes.number("weight"));
  return {{{}, DType::f64}};
}

/// As the gradient of a loss is 1, that of each operand is the other one times the weight.
void dot_rule(GradientContext& context) {
  require_no_cotangent(context, 0);
  const Attributes weight{{"factor0", context.node().attributes.number("weight")}};
  for (const int operand : {0, 1}) {
    if (!context.needs_gradient(operand)) continue;
    context.contribute(operand, context.emit(operand, kWeightedSum, {context.operand(1 - operand)}, weight)[0]);
  }
}

Types infer_cast(const Types& types, const Node& node) {
  require_float(types[0], node);
  const DType to = dtype_from_string(node.attributes.word("dtype"));
  require(is_floating_point(to), node, "casts to floating-point types only");
  return {{types[0].dims, to}};
}

void cast_rule(GradientContext& context) {
  const auto dy = context.cotangent(0);
  const Value x = context.operand(0);
  // A parameter's gradient is accumulated in its own type. Rounding it to the parameter's type would lose digits.
  if (context.graph().node(x.node).is_parameter()) return context.contribute(0, *dy);
  const std::string back(to_string(context.graph().type(x).dtype));
  context.contribute(0, context.emit(0, "cast", {*dy}, {{"dtype", back}})[0]);
}

Types infer_common(const Types& types, const Node& node) { return {common_type(types, node)}; }

void multiply_rule(GradientContext& context) {
  const Value dz = *context.cotangent(0);
  if (context.needs_gradient(0)) {
    context.contribute(0, context.emit(0, "multiply", {dz, context.operand(1)}, {})[0]);
  }
  if (!context.needs_gradient(1)) return;
  const Value x = context.operand(0);
  const Dims dims = context.graph().type(context.operand(1)).dims;
  if (context.graph().type(x).dims == dims) return context.contribute(1, context.emit(1, "multiply", {dz, x}, {})[0]);
  // No node may read a node that was emitted for a parameter, so a product that is summed is emitted for operand 0.
  if (!context.graph().node(x.node).is_parameter()) {
    return contribute_addend(context, 1, context.emit(0, "multiply", {dz, x}, {})[0]);
  }
  const Attributes attributes = gradient_attributes(context, 1, {{"result", join(dims)}});
  context.contribute(1, context.emit(1, "linear", {dz, x}, attributes)[0]);
}

Types infer_normalize(const Types& types, const Node& node) {
  require_float(types[0], node);
  require(types[1].dtype == statistic_type(types[0].dtype) && is_ordered_subset(types[1].dims, types[0].dims), node,
          to_string(types[1]) + " cannot hold squares of " + to_string(types[0]));
  return {types[0]};
}

class Sum final : public NamedOp {
 public:
  Sum() : NamedOp("sum", "x1, …, xn -> x1 + … + xn, all of one type.") {}
  [[nodiscard]] bool is_sum() const override { return true; }

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, node.operands.size());
    require(!types.empty(), node, "takes at least one operand");
    for (const TensorType& type : types) require_same(type, types[0], node);
    return {types[0]};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto dy = context.cotangent(0);
      for (int index = 0; index < static_cast<int>(context.node().operands.size()); ++index)
        context.contribute(index, *dy);
    };
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::common; }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    for (int index = 0; index < static_cast<int>(node.operands.size()); ++index) space.partial_operands.insert(index);
    return space;
  }

  std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

/// z = function(x, y), where y may lack dims of x.
template <class Function>
Work prepare_repeated(const OpInstance& op, const Function& function) {
  const Strides y_strides = strides_along(op.operands[1], op.operands[0].dims);
  return [y_strides, function](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader y = launch.operand(1);
    const Writer z = launch.result(0);
    const Shape& shape = launch.op().operands[0].shape;
    const std::int64_t count = element_count(shape);
    for (std::int64_t i = 0; i < count; ++i) z.set(i, function(x[i], y[offset(i, shape, y_strides)]));
  };
}

Work prepare_add(const OpInstance& op) { return prepare_repeated(op, std::plus<>{}); }
Work prepare_multiply(const OpInstance& op) { return prepare_repeated(op, std::multiplies<>{}); }

Work prepare_sum(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0.0;
      for (std::size_t operand = 0; operand < launch.op().operands.size(); ++operand) sum += launch.operand(operand)[i];
      y.set(i, sum);
    }
  };
}

Work prepare_cast(const OpInstance& op) {
  return map_elements<1>(op, [](double x) { return x; });
}

Work prepare_scale_gradient(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, x[i] * launch.context().loss_scale);
  };
}

Work prepare_normalize(const OpInstance& op) {
  const Strides strides = strides_along(op.operands[1], op.operands[0].dims);
  const double epsilon = op.attributes.number("epsilon");
  return [strides, epsilon](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader squares = launch.operand(1);
    const Writer y = launch.result(0);
    const Shape& shape = launch.op().operands[0].shape;
    const std::int64_t count = element_count(shape);
    for (std::int64_t i = 0; i < count; ++i) {
      y.set(i, x[i] / (std::sqrt(squares[offset(i, shape, strides)]) + epsilon));
    }
  };
}

/// The dims of x that y lacks, with their sizes.
OperandDescription summed_dims(const OperandDescription& x, const OperandDescription& y) {
  OperandDescription summed{x.dtype, {}, {}};
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (contains(y.dims, x.dims[i])) continue;
    summed.dims.push_back(x.dims[i]);
    summed.shape.push_back(x.shape[i]);
  }
  return summed;
}

Work prepare_reduce_sum(const OpInstance& op) {
  const OperandDescription summed = summed_dims(op.operands[0], op.results[0]);
  const Strides kept_strides = strides_along(op.operands[0], op.results[0].dims);
  const Strides summed_strides = strides_along(op.operands[0], summed.dims);
  return [summed, kept_strides, summed_strides](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    const Shape& kept = launch.op().results[0].shape;
    const std::int64_t count = element_count(kept);
    const std::int64_t terms = elements(summed);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t first = offset(i, kept, kept_strides);
      double sum = 0.0;
      for (std::int64_t j = 0; j < terms; ++j) sum += x[first + offset(j, summed.shape, summed_strides)];
      y.set(i, sum);
    }
  };
}

Work prepare_repeat(const OpInstance& op) {
  const Strides strides = strides_along(op.operands[0], op.results[0].dims);
  return [strides](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Shape& shape = launch.op().results[0].shape;
    const std::int64_t count = element_count(shape);
    for (std::int64_t i = 0; i < count; ++i) launch.result(0).set(i, x[offset(i, shape, strides)]);
  };
}

Work prepare_dot(const OpInstance& op) {
  return [count = elements(op.operands[0]), weight = op.attributes.number("weight")](const Launch& launch) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += launch.operand(0)[i] * launch.operand(1)[i];
    launch.result(0).set(0, weight * sum);
  };
}

}  // namespace

void register_elementwise(Registration& registration) {
  add_op(registration,
         {.name = "add",
          .documentation =
              "x, y -> x + y; y has the dims of x or an ordered subset, over the rest of which it is repeated.",
          .operands = 2,
          .infer = infer_repeated,
          .in_place = {0, 1},
          .precision = OperandPrecision::common,
          .gradient = add_rule});
  add_op(registration,
         {.name = "reduce_sum",
          .documentation =
              "x -> sum over the dims that the result (attribute result; dtype, where it is not that of x) lacks.",
          .infer = infer_reduce_sum,
          .precision = OperandPrecision::any,
          .gradient = reduce_sum_rule});
  add_op(registration,
         {.name = "repeat",
          .documentation =
              "x -> x, repeated over the dims that the result (attribute result; dtype, where it is not that of x) has "
              "besides.",
          .infer = infer_repeat,
          .precision = OperandPrecision::any,
          .gradient = repeat_rule});
  add_op(
      registration,
      {.name = "dot",
       .documentation = "x, y of the same dims -> [] f64: weight · Σ x · y (attribute weight), for a loss of a model's "
                        "own (GraphBuilder::add_loss). It has a gradient as a loss only.",
       .operands = 2,
       .infer = infer_dot,
       .gradient = dot_rule});
  add_op(registration, {.name = "cast",
                        .documentation = "x -> x in another floating-point type (attribute dtype).",
                        .infer = infer_cast,
                        .precision = OperandPrecision::any,
                        .gradient = cast_rule});
  add_op(registration,
         {.name = "scale_gradient",
          .documentation =
              "x -> x times the step's loss scale (StepContext::loss_scale): where the backward pass of a loss begins.",
          .infer = infer_common,
          .in_place = {0},
          .partial_operands = {0}});
  // The product is linear in one operand as long as the other is complete.
  add_op(registration,
         {.name = "multiply",
          .documentation = "x, y -> x · y; y has the dims of x or an ordered subset, over the rest of which it is "
                           "repeated.",
          .operands = 2,
          .infer = infer_repeated,
          .in_place = {0, 1},
          .precision = OperandPrecision::common,
          .gradient = multiply_rule,
          .partial_operands = {0}});
  add_op(registration,
         {.name = "normalize",
          .documentation =
              "x, squares -> x / (√squares + epsilon) (attribute epsilon): divides by the norm over the dims that "
              "squares lacks; squares holds the sums of x² over them, in f32 (f64 for f64).",
          .operands = 2,
          .infer = infer_normalize,
          .in_place = {0}});
  registration.add(std::make_unique<Sum>());
  registration.add(reference::kernel({"add", "rr", "r", prepare_add}));
  registration.add(reference::kernel({"sum", "r*", "r", prepare_sum}));
  registration.add(reference::kernel({"cast", "r", "r", prepare_cast}));
  registration.add(reference::kernel({"multiply", "rr", "r", prepare_multiply}));
  registration.add(reference::kernel({"scale_gradient", "r", "r", prepare_scale_gradient}));
  registration.add(reference::kernel({"normalize", "rs", "r", prepare_normalize}));
  registration.add(reference::kernel({"reduce_sum", "r", "r", prepare_reduce_sum}));
  registration.add(reference::kernel({"repeat", "r", "r", prepare_repeat}));
  registration.add(reference::kernel({"dot", "rr", "d", prepare_dot}));
}

}  // namespace strata::ops
