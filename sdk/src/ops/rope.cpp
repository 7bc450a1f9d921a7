#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

Types infer_rope(const Graph& graph, const Types& types, const Node& node) {
  const TensorType& x = types[0];
  require_float(x, node);
  require(!x.dims.empty(), node, "x has at least one dim");
  const DType full = statistic_type(x.dtype);
  require(types[1].dims.size() == 2 && types[1].dtype == full, node,
          "cos is [positions pairs] of type " + std::string(to_string(full)) + ", found " + to_string(types[1]));
  require_same(types[2], types[1], node);
  require(types[3].dtype == DType::i32 && is_ordered_subset(types[3].dims, without_last(x.dims)), node,
          "positions are i32 over dims of x without the last, found " + to_string(types[3]));
  const std::int64_t features = graph.sizes.at(x.dims.back());
  const std::int64_t pairs = graph.sizes.at(types[1].dims[1]);
  require(2 * pairs <= features, node,
          std::to_string(features) + " features take at most " + std::to_string(features / 2) + " angles, found " +
              std::to_string(pairs));
  static_cast<void>(node.attributes.flag("inverse"));
  return {x};
}

void rope_rule(GradientContext& context) {
  require(!context.needs_gradient(1) && !context.needs_gradient(2), context.node(),
          "has no gradient for cos and sin; make them constants");
  const bool inverse = context.node().attributes.flag("inverse");
  context.contribute(
      0, context.emit(0, "rope", {*context.cotangent(0), context.operand(1), context.operand(2), context.operand(3)},
                      {{"inverse", !inverse}})[0]);
}

/// A feature's partner is somewhere else in the dim, and any position may occur.
void keep_angles_whole(IterationSpace& space, const Node& /*node*/) {
  space.whole = {space.operands[0].back(), space.operands[1][0], space.operands[1][1]};
}

/// Two products and a sum per element.
double rope_flops(const Graph& graph, const Node& node) {
  return 3 * static_cast<double>(element_count(graph.shape(node.operands[0])));
}

Work prepare_rope(const OpInstance& op) {
  const double direction = op.attributes.flag("inverse") ? -1 : 1;
  Dims row_dims = op.operands[0].dims;
  Shape row_shape = op.operands[0].shape;
  row_dims.pop_back();
  row_shape.pop_back();
  return [=, strides = strides_along(op.operands[3], row_dims)](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader cos = launch.operand(1);
    const Reader sin = launch.operand(2);
    const Reader positions = launch.operand(3);
    const Writer y = launch.result(0);
    const std::int64_t pairs = columns(launch.op().operands[1]);
    const std::int64_t features = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < element_count(row_shape); ++row) {
      const auto position = static_cast<std::int64_t>(positions[offset(row, row_shape, strides)]);
      const bool turns = position >= 0 && position < rows(launch.op().operands[1]);
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const std::int64_t first = row * features + pair;
        const std::int64_t second = first + pairs;
        const double c = turns ? cos[position * pairs + pair] : 1;
        const double s = turns ? direction * sin[position * pairs + pair] : 0;
        // y may alias x, so read both before writing.
        const double a = x[first];
        const double b = x[second];
        y.set(first, a * c - b * s);
        y.set(second, a * s + b * c);
      }
      for (std::int64_t i = row * features + 2 * pairs; i < (row + 1) * features; ++i) y.set(i, x[i]);
    }
  };
}

}  // namespace

void register_rope(Registration& registration) {
  add_op(
      registration,
      {.name = "rope",
       .documentation =
           "x […  D], cos and sin [P R], positions […] i32 -> […  D]: rotates the features i and i + R of the last "
           "dim by the angle whose cosine and sine stand in row positions, column i; by the opposite angle with the "
           "attribute inverse. Features from 2 R on stay as they are. The dims of positions are an ordered subset of "
           "those of x. A position without a row rotates nothing. Su et al., \"RoFormer\", 2021.",
       .operands = 4,
       .infer_sized = infer_rope,
       .in_place = {0},
       .first_precisions = {OperandPrecision::any},
       .gradient = rope_rule,
       .partial_operands = {0},
       .iterate = keep_angles_whole,
       .flops = rope_flops});
  registration.add(reference::kernel({"rope", "rffi", "r", prepare_rope}));
}

}  // namespace strata::ops
