#include <algorithm>

#include "ops/op_base.hpp"
#include "ops/window.hpp"

namespace strata::ops {
namespace {

// Images are [batch channels height width], whatever their names, and weights [result_channels channels rows columns].

/// Dims of the images that the window slides over, of the weights, and of the images that it makes.
struct Roles {
  Dims x;
  Dims w;
  Dims y;
};

/// The roles of both operands and the result, in which the convolution and its gradients differ.
using FindRoles = Roles (*)(const Dims& first, const Dims& second, const Dims& result);

Types infer_with_roles(const Graph& graph, const Types& types, const Node& node, FindRoles find) {
  require_float(types[0], node);
  require(types[0].dtype == types[1].dtype, node,
          to_string(types[0]) + " and " + to_string(types[1]) + " differ in type");
  const Dims result = split_dims(node.attributes.word("result"));
  require(types[0].dims.size() == kImageDims && types[1].dims.size() == kImageDims && result.size() == kImageDims, node,
          "takes and makes [batch channels height width] and [result_channels channels rows columns]");
  const auto [x, w, y] = find(types[0].dims, types[1].dims, result);
  require(x[kOuter] == y[kOuter] && x[kChannels] == w[kChannels] && y[kChannels] == w[kOuter] &&
              x[kChannels] != y[kChannels],
          node,
          "[" + join(x) + "] and weights [" + join(w) + "] do not make [" + join(y) +
              "], whose channels are the first dim of the weights, and another dim than those of the operand");
  require_windows(graph, node, x, {graph.sizes.at(w[kHeight]), graph.sizes.at(w[kWidth])}, y);
  return {{result, result_type(node, types[0].dtype)}};
}

double convolution_flops(const Graph& graph, const Node& node, FindRoles find) {
  const auto [x, w, y] =
      find(graph.type(node.operands[0]).dims, graph.type(node.operands[1]).dims, node.results[0].dims);
  double flops = 2 * static_cast<double>(graph.sizes.at(y[kOuter]));
  for (const Dim& dim : w) flops *= static_cast<double>(graph.sizes.at(dim));
  for (const std::size_t place : {kHeight, kWidth}) flops *= static_cast<double>(graph.sizes.at(y[place]));
  return flops;
}

OpDescription convolution_op(std::string name, std::string documentation, FindRoles find, GradientRule gradient = {}) {
  return {.name = std::move(name),
          .documentation = std::move(documentation),
          .operands = 2,
          .infer_sized = [find](const Graph& graph, const Types& types,
                                const Node& node) { return infer_with_roles(graph, types, node, find); },
          .precision = OperandPrecision::low,
          .gradient = std::move(gradient),
          .iterate = keep_pixels_whole,
          .flops = [find](const Graph& graph, const Node& node) { return convolution_flops(graph, node, find); }};
}

void convolution_rule(GradientContext& context) {
  const Value dy = *context.cotangent(0);
  const auto attributes = [&](int operand) {
    Attributes same = context.node().attributes;
    same.set("result", join(context.graph().type(context.operand(operand)).dims));
    return gradient_attributes(context, operand, std::move(same));
  };
  if (context.needs_gradient(0)) {
    context.contribute(0, context.emit(0, "convolution_input_gradient", {dy, context.operand(1)}, attributes(0))[0]);
  }
  if (!context.needs_gradient(1)) return;
  context.contribute(1, context.emit(1, "convolution_weight_gradient", {context.operand(0), dy}, attributes(1))[0]);
}

/// Strides of a contiguous tensor of four dims.
struct Image {
  explicit Image(const Shape& of) : shape(of) {}
  [[nodiscard]] std::int64_t at(std::int64_t outer, std::int64_t channel, std::int64_t row, std::int64_t column) const {
    return ((outer * shape[kChannels] + channel) * shape[kHeight] + row) * shape[kWidth] + column;
  }
  Shape shape;
};

/// The sizes of one convolution, and which operand or result is which.
struct Window {
  Window(const OpInstance& op, const Shape& x_shape, const Shape& w_shape, const Shape& y_shape)
      : x(x_shape),
        w(w_shape),
        y(y_shape),
        stride(op.attributes.integer("stride")),
        padding(op.attributes.integer("padding")) {}

  /// Calls visit(x, w, y), element numbers that belong together, for one batch element, one channel of x, one of y, and
  /// all pixels.
  template <class Visit>
  void for_each(std::int64_t b, std::int64_t c, std::int64_t o, const Visit& visit) const {
    for (std::int64_t i = 0; i < y.shape[kHeight]; ++i) {
      for (std::int64_t j = 0; j < y.shape[kWidth]; ++j) {
        for (std::int64_t m = 0; m < w.shape[kHeight]; ++m) {
          const std::int64_t row = i * stride + m - padding;
          if (row < 0 || row >= x.shape[kHeight]) continue;
          for (std::int64_t n = 0; n < w.shape[kWidth]; ++n) {
            const std::int64_t column = j * stride + n - padding;
            if (column < 0 || column >= x.shape[kWidth]) continue;
            visit(x.at(b, c, row, column), w.at(o, c, m, n), y.at(b, o, i, j));
          }
        }
      }
    }
  }

  Image x;
  Image w;
  Image y;
  std::int64_t stride;
  std::int64_t padding;
};

/// Sums first · second into result, where select(x, w, y) gives the numbers of the elements of the three.
template <class Select>
Work prepare_products(const Window& window, const Select& select) {
  return [window, select](const Launch& launch) {
    std::vector<double> sums(static_cast<std::size_t>(elements(launch.op().results[0])), 0.0);
    const auto multiply = [&](const auto& first, const auto& second) {
      for (std::int64_t b = 0; b < window.x.shape[kOuter]; ++b) {
        for (std::int64_t o = 0; o < window.w.shape[kOuter]; ++o) {
          for (std::int64_t c = 0; c < window.w.shape[kChannels]; ++c) {
            window.for_each(b, c, o, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
              const std::array<std::int64_t, 3> at = select(x, w, y);
              sums[static_cast<std::size_t>(at[2])] += first[at[0]] * second[at[1]];
            });
          }
        }
      }
    };
    launch.with_operand(
        0, [&](const auto& first) { launch.with_operand(1, [&](const auto& second) { multiply(first, second); }); });
    const Writer result = launch.result(0);
    for (std::size_t i = 0; i < sums.size(); ++i) result.set(static_cast<std::int64_t>(i), sums[i]);
  };
}

using Numbers = std::array<std::int64_t, 3>;

Work prepare_convolution(const OpInstance& op) {
  const Window window(op, op.operands[0].shape, op.operands[1].shape, op.results[0].shape);
  return prepare_products(window, [](auto x, auto w, auto y) { return Numbers{x, w, y}; });
}

Work prepare_input_gradient(const OpInstance& op) {
  const Window window(op, op.results[0].shape, op.operands[1].shape, op.operands[0].shape);
  return prepare_products(window, [](auto x, auto w, auto y) { return Numbers{y, w, x}; });
}

Work prepare_weight_gradient(const OpInstance& op) {
  const Window window(op, op.operands[0].shape, op.results[0].shape, op.operands[1].shape);
  return prepare_products(window, [](auto x, auto w, auto y) { return Numbers{x, y, w}; });
}

}  // namespace

void register_convolution(Registration& registration) {
  using D = const Dims&;
  add_op(registration,
         convolution_op(
             "convolution",
             "x [batch channels height width], w [result_channels channels rows columns] -> y [batch "
             "result_channels …] (attributes result: the dims of y; stride; padding: zeros around x): slides "
             "the window w over x, as torch.nn.Conv2d without bias.",
             [](D x, D w, D y) {
               return Roles{x, w, y};
             },
             convolution_rule));
  add_op(registration,
         convolution_op("convolution_input_gradient",
                        "dy, w -> dx (attributes as convolution's; result: the dims of x): the gradient of x.",
                        [](D y, D w, D x) {
                          return Roles{x, w, y};
                        }));
  add_op(registration,
         convolution_op("convolution_weight_gradient",
                        "x, dy -> dw (attributes as convolution's; result: the dims of w): the gradient of w.",
                        [](D x, D y, D w) {
                          return Roles{x, w, y};
                        }));
  registration.add(reference::kernel({"convolution", "rr", "r", prepare_convolution}));
  registration.add(reference::kernel({"convolution_input_gradient", "rr", "r", prepare_input_gradient}));
  registration.add(reference::kernel({"convolution_weight_gradient", "rr", "r", prepare_weight_gradient}));
}

}  // namespace strata::ops
