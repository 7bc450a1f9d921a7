#include <cmath>

#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

// Images x have a dim of channels, by which parameters and statistics are, and any others, which statistics reduce.
// With a sharded batch a mean or a sum is partial, and ranks add up. So every rank has the statistics of all samples.

/// Values of one channel: the product of all other dims, over all ranks.
double values_of_channel(const Graph& graph, const Dims& x, const Dims& channels) {
  double count = 1;
  for (const Dim& dim : x) {
    if (!contains(channels, dim)) count *= static_cast<double>(graph.sizes.at(dim));
  }
  return count;
}

/// Checks that the operands from `first` on have one value for each channel of x, in the type of statistics.
void require_channels(const Types& types, std::size_t first, const Node& node) {
  require_float(types[0], node);
  const Dims& channels = types[first].dims;
  require(channels.size() == 1 && contains(types[0].dims, channels[0]), node,
          to_string(types[first]) + " is not one value for each channel of " + to_string(types[0]));
  for (std::size_t i = first; i < types.size(); ++i) {
    require_same(types[i], {channels, statistic_type(types[0].dtype)}, node);
  }
}

Types infer_batch_norm(const Types& types, const Node& node) {
  require_channels(types, 1, node);
  require(node.attributes.number("epsilon") > 0, node, "epsilon must be above 0");
  const double momentum = node.attributes.number("momentum");
  require(momentum >= 0 && momentum <= 1, node, "momentum must be from 0 to 1");
  return {types[0], types[1], types[1]};
}

Attributes count_of(const Graph& graph, const Node& node) {
  const Dims& channels = graph.type(node.operands[1]).dims;
  return {{"channels", channels[0]}, {"count", values_of_channel(graph, graph.type(node.operands[0]).dims, channels)}};
}

void decompose_batch_norm(DecomposeContext& context) {
  const std::vector<Value> operands = context.node().operands;
  const Attributes count = count_of(context.graph(), context.node());
  const Value mean = context.emit("batch_mean", {operands[0]}, count)[0];
  const Value variance = context.emit("batch_variance", {operands[0], mean}, count)[0];
  context.replace(0, context.emit("batch_normalize", {operands[0], operands[1], operands[2], mean, variance},
                                  context.node().attributes)[0]);
  context.replace(1, mean);
  context.replace(2, variance);
}

void contribute_change(GradientContext& context, int operand, Value statistic, double factor) {
  if (!context.needs_gradient(operand)) return;
  const Node& leaf = context.graph().node(context.operand(operand).node);
  const bool is_average =
      !leaf.is_parameter() || context.graph().find_parameter(leaf.name)->role == ParameterRole::running_average;
  require(is_average, context.node(),
          "takes '" + leaf.name + "' as a running average; accepted: a GraphBuilder::running_average()");
  const double momentum = context.node().attributes.number("momentum");
  context.contribute(operand, context.emit(operand, "statistic_change", {statistic, context.operand(operand)},
                                           {{"factor", momentum * factor}, {"momentum", momentum}})[0]);
}

void batch_norm_rule(GradientContext& context) {
  require_no_cotangent(context, 1);
  require_no_cotangent(context, 2);
  const Value mean = context.result(1);
  const Value variance = context.result(2);
  Attributes attributes = count_of(context.graph(), context.node());
  const double count = attributes.number("count");
  if (count < 2) {
    throw ConfigurationError("op batch_norm '" + context.node().name +
                             "': found one value for each channel, a micro-batch of one sample on one replica; "
                             "accepted: at least 2 values in training, because a single one has no variance");
  }
  contribute_change(context, 3, mean, 1);
  contribute_change(context, 4, variance, count / (count - 1));  // the unbiased variance
  const auto dy = context.cotangent(0);
  if (!dy) return;
  attributes.set("epsilon", context.node().attributes.number("epsilon"));
  const Value x = context.operand(0);
  const bool has_input_gradient = context.needs_gradient(0);
  if (!has_input_gradient && !context.needs_gradient(1) && !context.needs_gradient(2)) return;
  const int reader = has_input_gradient ? GradientContext::kReadByGradients : context.needs_gradient(1) ? 1 : 2;
  const auto sums = context.emit(reader, "batch_norm_sums", {*dy, x, mean, variance}, attributes);
  if (context.needs_gradient(1)) context.contribute(1, sums[1]);
  if (context.needs_gradient(2)) context.contribute(2, sums[0]);
  if (!has_input_gradient) return;
  context.contribute(0, context.emit(0, "batch_norm_input_gradient",
                                     {*dy, x, context.operand(1), mean, variance, sums[0], sums[1]}, attributes)[0]);
}

/// Where the elements of a channel are: x is [outer, channels, inner].
struct Channels {
  explicit Channels(const OperandDescription& x, const Dim& dim) {
    const auto at = static_cast<std::size_t>(find_dim(x.dims, dim));
    for (std::size_t i = 0; i < x.dims.size(); ++i) (i < at ? outer : i == at ? channels : inner) *= x.shape[i];
  }

  /// Calls visit(element) for all elements of a channel.
  template <class Visit>
  void for_each(std::int64_t channel, const Visit& visit) const {
    for (std::int64_t i = 0; i < outer; ++i) {
      for (std::int64_t j = 0; j < inner; ++j) visit((i * channels + channel) * inner + j);
    }
  }

  std::int64_t outer = 1;
  std::int64_t channels = 1;
  std::int64_t inner = 1;
};

Work prepare_batch_mean(const OpInstance& op) {
  const Channels x_channels(op.operands[0], op.attributes.word("channels"));
  return [x_channels, count = op.attributes.number("count")](const Launch& launch) {
    const Reader x = launch.operand(0);
    for (std::int64_t c = 0; c < x_channels.channels; ++c) {
      double sum = 0;
      x_channels.for_each(c, [&](std::int64_t i) { sum += x[i]; });
      launch.result(0).set(c, sum / count);
    }
  };
}

Work prepare_batch_variance(const OpInstance& op) {
  const Channels x_channels(op.operands[0], op.operands[1].dims[0]);
  return [x_channels, count = op.attributes.number("count")](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader mean = launch.operand(1);
    for (std::int64_t c = 0; c < x_channels.channels; ++c) {
      double sum = 0;
      x_channels.for_each(c, [&](std::int64_t i) { sum += (x[i] - mean[c]) * (x[i] - mean[c]); });
      launch.result(0).set(c, sum / count);
    }
  };
}

Work prepare_batch_normalize(const OpInstance& op) {
  const Channels x_channels(op.operands[0], op.operands[1].dims[0]);
  return [x_channels, epsilon = op.attributes.number("epsilon")](const Launch& launch) {
    const Reader x = launch.operand(0);
    for (std::int64_t c = 0; c < x_channels.channels; ++c) {
      const double mean = launch.operand(3)[c];
      const double scale = launch.operand(1)[c] / std::sqrt(launch.operand(4)[c] + epsilon);
      const double bias = launch.operand(2)[c];
      x_channels.for_each(c, [&](std::int64_t i) { launch.result(0).set(i, (x[i] - mean) * scale + bias); });
    }
  };
}

Work prepare_batch_norm_sums(const OpInstance& op) {
  const Channels x_channels(op.operands[0], op.operands[2].dims[0]);
  return [x_channels, epsilon = op.attributes.number("epsilon")](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    for (std::int64_t c = 0; c < x_channels.channels; ++c) {
      const double mean = launch.operand(2)[c];
      const double scale = 1 / std::sqrt(launch.operand(3)[c] + epsilon);
      double sum = 0;
      double product = 0;
      x_channels.for_each(c, [&](std::int64_t i) {
        sum += dy[i];
        product += dy[i] * (x[i] - mean) * scale;
      });
      launch.result(0).set(c, sum);
      launch.result(1).set(c, product);
    }
  };
}

Work prepare_batch_norm_input_gradient(const OpInstance& op) {
  const Channels x_channels(op.operands[0], op.operands[2].dims[0]);
  return [x_channels, epsilon = op.attributes.number("epsilon"),
          count = op.attributes.number("count")](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    for (std::int64_t c = 0; c < x_channels.channels; ++c) {
      const double mean = launch.operand(3)[c];
      const double scale = 1 / std::sqrt(launch.operand(4)[c] + epsilon);
      const double gain = launch.operand(2)[c] * scale;
      const double sum = launch.operand(5)[c] / count;
      const double product = launch.operand(6)[c] / count;
      x_channels.for_each(
          c, [&](std::int64_t i) { launch.result(0).set(i, gain * (dy[i] - sum - (x[i] - mean) * scale * product)); });
    }
  };
}

Work prepare_statistic_change(const OpInstance& op) {
  return map_elements<2>(op, [factor = op.attributes.number("factor"), momentum = op.attributes.number("momentum")](
                                 double statistic, double average) { return factor * statistic - momentum * average; });
}

Types infer_batch_mean(const Types& types, const Node& node) {
  require_float(types[0], node);
  const Dim& channels = node.attributes.word("channels");
  require(contains(types[0].dims, channels), node, to_string(types[0]) + " has no dim '" + channels + "'");
  return {{{channels}, statistic_type(types[0].dtype)}};
}

}  // namespace

void register_batch_norm(Registration& registration) {
  add_op(registration,
         {.name = "batch_norm",
          .documentation =
              "x, gain [C], bias [C], running_mean [C], running_variance [C] -> y, mean [C], variance [C] (attributes "
              "epsilon, momentum): normalises each channel C of x over all its other dims, the batch of all ranks "
              "included (Ioffe and Szegedy, 2015). The gradient of a running average is momentum · (statistic - "
              "average), with the unbiased variance. Short-hand for batch_mean, batch_variance and batch_normalize.",
          .operands = 5,
          .infer = infer_batch_norm,
          // Only the images may have a short type.
          .first_precisions = {OperandPrecision::any},
          .gradient = batch_norm_rule,
          .decomposition = decompose_batch_norm});
  add_op(registration, {.name = "batch_mean",
                        .documentation = "x -> [C] (attributes channels: C; count): the sum over all other dims of x, "
                                         "divided by the number of these values on all ranks.",
                        .infer = infer_batch_mean,
                        .precision = OperandPrecision::any});
  add_op(registration, {.name = "batch_variance",
                        .documentation = "x, mean [C] -> [C] (attribute count): likewise the mean of (x - mean)².",
                        .operands = 2,
                        .infer = [](const Types& types, const Node& node) -> Types {
                          require_channels(types, 1, node);
                          return {types[1]};
                        }});
  add_op(
      registration,
      {.name = "batch_normalize",
       .documentation = "x, gain [C], bias [C], mean [C], variance [C] -> gain · (x - mean) / √(variance + epsilon) + "
                        "bias (attribute epsilon). With running averages: batch norm in evaluation.",
       .operands = 5,
       .infer = [](const Types& types, const Node& node) -> Types {
         require_channels(types, 1, node);
         return {types[0]};
       },
       .in_place = {0},
       .first_precisions = {OperandPrecision::any}});
  add_op(
      registration,
      {.name = "batch_norm_sums",
       .documentation = "dy, x, mean [C], variance [C] -> [C], [C] (attribute epsilon): the sums of dy and of dy · (x "
                        "- mean) / √(variance + epsilon), the gradients of bias and gain.",
       .operands = 4,
       .infer = [](const Types& types, const Node& node) -> Types {
         require_same(types[1], types[0], node);
         require_channels({types[0], types[2], types[3]}, 1, node);
         return {types[2], types[2]};
       }});
  add_op(registration,
         {.name = "batch_norm_input_gradient",
          .documentation = "dy, x, gain [C], mean [C], variance [C], sum [C], product [C] -> dx (attributes epsilon, "
                           "count): the gradient of x, with the results of batch_norm_sums.",
          .operands = 7,
          .infer = [](const Types& types, const Node& node) -> Types {
            require_same(types[1], types[0], node);
            require_channels({types[0], types[2], types[3], types[4], types[5], types[6]}, 1, node);
            return {types[0]};
          },
          .in_place = {0}});
  add_op(registration, {.name = "statistic_change",
                        .documentation = "statistic, average -> factor · statistic - momentum · average (attributes "
                                         "factor, momentum): how far a step moves a running average.",
                        .operands = 2,
                        .infer = [](const Types& types, const Node& node) -> Types {
                          require_float(types[0], node);
                          require_same({types[1].dims, types[0].dtype}, types[0], node);
                          require(node.attributes.number("factor") >= node.attributes.number("momentum"), node,
                                  "factor must be at least momentum");
                          return {types[0]};
                        }});
  registration.add(reference::kernel({"batch_mean", "r", "r", prepare_batch_mean}));
  registration.add(reference::kernel({"batch_variance", "rr", "r", prepare_batch_variance}));
  registration.add(reference::kernel({"batch_normalize", "rrrrr", "r", prepare_batch_normalize}));
  registration.add(reference::kernel({"batch_norm_sums", "rrrr", "rr", prepare_batch_norm_sums}));
  registration.add(reference::kernel({"batch_norm_input_gradient", "rrrrrrr", "r", prepare_batch_norm_input_gradient}));
  registration.add(reference::kernel({"statistic_change", "rr", "r", prepare_statistic_change}));
}

}  // namespace strata::ops
