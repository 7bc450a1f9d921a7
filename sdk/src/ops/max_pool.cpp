#include <algorithm>

#include "ops/op_base.hpp"
#include "ops/window.hpp"

namespace strata::ops {
namespace {

void require_pool(const Graph& graph, const Node& node, const Dims& x, const Dims& y) {
  require(x.size() == kImageDims && y.size() == kImageDims && x[kOuter] == y[kOuter] && x[kChannels] == y[kChannels],
          node, "[" + join(x) + "] and [" + join(y) + "] are not images [batch channels height width] of two sizes");
  const std::int64_t size = node.attributes.integer("size");
  require_windows(graph, node, x, {size, size}, y);
}

Types infer_max_pool(const Graph& graph, const Types& types, const Node& node) {
  require_float(types[0], node);
  const Dims result = split_dims(node.attributes.word("result"));
  require_pool(graph, node, types[0].dims, result);
  return {{result, types[0].dtype}};
}

void max_pool_rule(GradientContext& context) {
  Attributes attributes = context.node().attributes;
  attributes.set("result", join(context.graph().type(context.operand(0)).dims));
  context.contribute(0,
                     context.emit(0, "max_pool_gradient", {*context.cotangent(0), context.operand(0)}, attributes)[0]);
}

Types infer_max_pool_gradient(const Graph& graph, const Types& types, const Node& node) {
  require_float(types[1], node);
  require(types[0].dtype == types[1].dtype, node,
          to_string(types[0]) + " and " + to_string(types[1]) + " differ in type");
  require_pool(graph, node, types[1].dims, types[0].dims);
  return {types[1]};
}

/// Windows over the pixels of one channel.
struct PoolWindows {
  PoolWindows(const OpInstance& op, const Shape& x, const Shape& y)
      : images(x[kOuter] * x[kChannels]),
        height(x[kHeight]),
        width(x[kWidth]),
        out_height(y[kHeight]),
        out_width(y[kWidth]),
        size(op.attributes.integer("size")),
        stride(op.attributes.integer("stride")),
        padding(op.attributes.integer("padding")) {}

  /// Calls visit(element of y, element of x that it takes) for all windows.
  template <class Values, class Visit>
  void for_each(const Values& x, const Visit& visit) const {
    for (std::int64_t i = 0; i < images * out_height * out_width; ++i) {
      const std::int64_t image = i / (out_height * out_width) * height * width;
      const std::int64_t top = i / out_width % out_height * stride - padding;
      const std::int64_t left = i % out_width * stride - padding;
      std::int64_t chosen = -1;
      for (std::int64_t row = std::max<std::int64_t>(top, 0); row < std::min(top + size, height); ++row) {
        for (std::int64_t column = std::max<std::int64_t>(left, 0); column < std::min(left + size, width); ++column) {
          const std::int64_t at = image + row * width + column;
          if (chosen < 0 || x[at] > x[chosen]) chosen = at;
        }
      }
      visit(i, chosen);
    }
  }

  std::int64_t images;
  std::int64_t height;
  std::int64_t width;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t size;
  std::int64_t stride;
  std::int64_t padding;
};

Work prepare_max_pool(const OpInstance& op) {
  return [windows = PoolWindows(op, op.operands[0].shape, op.results[0].shape)](const Launch& launch) {
    const Reader x = launch.operand(0);
    windows.for_each(x, [&](std::int64_t to, std::int64_t from) { launch.result(0).set(to, x[from]); });
  };
}

Work prepare_max_pool_gradient(const OpInstance& op) {
  return [windows = PoolWindows(op, op.operands[1].shape, op.operands[0].shape)](const Launch& launch) {
    std::vector<double> sums(static_cast<std::size_t>(elements(launch.op().results[0])), 0.0);
    const Reader dy = launch.operand(0);
    windows.for_each(launch.operand(1),
                     [&](std::int64_t from, std::int64_t to) { sums[static_cast<std::size_t>(to)] += dy[from]; });
    for (std::size_t i = 0; i < sums.size(); ++i) launch.result(0).set(static_cast<std::int64_t>(i), sums[i]);
  };
}

}  // namespace

void register_max_pool(Registration& registration) {
  add_op(registration,
         {.name = "max_pool",
          .documentation =
              "x [batch channels height width] -> y (attributes result: the dims of y; size; stride; padding: pixels "
              "around x that no window chooses): the largest value of each square window.",
          .infer_sized = infer_max_pool,
          .precision = OperandPrecision::any,
          .gradient = max_pool_rule,
          .iterate = keep_pixels_whole});
  add_op(registration,
         {.name = "max_pool_gradient",
          .documentation =
              "dy, x -> dx (attributes as max_pool's; result: the dims of x): dy goes to the largest pixel of its "
              "window, and of equal ones to the first.",
          .operands = 2,
          .infer_sized = infer_max_pool_gradient,
          .precision = OperandPrecision::any,
          .iterate = keep_pixels_whole});
  registration.add(reference::kernel({"max_pool", "r", "r", prepare_max_pool}));
  registration.add(reference::kernel({"max_pool_gradient", "rr", "r", prepare_max_pool_gradient}));
}

}  // namespace strata::ops
