#include <vector>

#include "ops/row_op.hpp"

/// \file
/// How tokens choose experts: scores, and the choice of the best.

namespace strata::ops {
namespace {

/// The attribute that gives the gradient of `operand` its type.
Attributes with_type_of(const GradientContext& context, int operand, Attributes attributes) {
  attributes.set("dtype", std::string(to_string(context.graph().type(context.operand(operand)).dtype)));
  return attributes;
}

Types infer_softmax(const Types& types, const Node& node) {
  require_rows(types[0], node);
  return {{types[0].dims, statistic_type(types[0].dtype)}};
}

/// The type of the second operand, or the one in the attribute dtype.
Types infer_row_gradient(const Types& types, const Node& node) {
  require_rows(types[1], node);
  require_dims(types[0], types[1].dims, node);
  return {{types[1].dims, result_type(node, types[1].dtype)}};
}

void softmax_rule(GradientContext& context) {
  context.contribute(0, context.emit(0, "softmax_gradient", {*context.cotangent(0), context.result(0)},
                                     with_type_of(context, 0, {}))[0]);
}

void softmax_row(const Launch& launch, std::int64_t first, std::int64_t width) {
  const Exponentials exponentials(launch.operand(0), first, width);
  for (std::int64_t j = 0; j < width; ++j) launch.result(0).set(first + j, exponentials.probability(j));
}

void softmax_gradient_row(const Launch& launch, std::int64_t first, std::int64_t width) {
  const Reader dy = launch.operand(0);
  const Reader y = launch.operand(1);
  double sum = 0;
  for (std::int64_t j = 0; j < width; ++j) sum += dy[first + j] * y[first + j];
  for (std::int64_t j = 0; j < width; ++j) launch.result(0).set(first + j, y[first + j] * (dy[first + j] - sum));
}

// --- top_k

/// Checks scores, which are operand `scores`, and behind them a bias of each of the row's elements, if there is one.
void require_scores(const Types& types, std::size_t scores, const Node& node) {
  require_rows(types[scores], node);
  if (types.size() > scores + 1) require_dims(types[scores + 1], {types[scores].dims.back()}, node);
}

Types infer_top_k(const Graph& graph, const Types& types, const Node& node) {
  require_scores(types, 0, node);
  const std::int64_t k = node.attributes.integer("k");
  const std::int64_t all = graph.sizes.at(types[0].dims.back());
  require(k >= 1 && k <= all, node,
          "k must be from 1 to " + std::to_string(all) + ", the size of " + types[0].dims.back() + "; found " +
              std::to_string(k));
  return {types[0]};
}

Types infer_top_k_gradient(const Types& types, const Node& node) {
  require_rows(types[0], node);
  require_same(types[1], types[0], node);
  require_scores(types, 1, node);
  return {types[0]};
}

/// True if the operand behind the scores is a running average, which a step moves (GraphBuilder::running_average).
bool has_moving_bias(const GradientContext& context) {
  if (context.node().operands.size() < 2 || !context.needs_gradient(1)) return false;
  const Parameter* bias = context.graph().find_parameter(context.graph().node(context.operand(1).node).name);
  return bias != nullptr && bias->role == ParameterRole::running_average;
}

void top_k_rule(GradientContext& context) {
  if (has_moving_bias(context)) {
    const Attributes k{{"k", context.node().attributes.integer("k")}};
    context.contribute(1, context.emit(1, "load_deficit", {context.result(0)}, k)[0]);
  }
  std::vector<Value> operands = context.node().operands;
  operands.insert(operands.begin(), *context.cotangent(0));
  context.contribute(0, context.emit(0, "top_k_gradient", operands, context.node().attributes)[0]);
}

/// The chosen elements of a row, the best first. Of equals, the first one is better.
std::vector<std::int64_t> best(const Launch& launch, std::size_t scores, std::int64_t first, std::int64_t width) {
  const bool has_bias = launch.op().operands.size() > scores + 1;
  const auto compared = [&](std::int64_t j) {
    return launch.operand(scores)[first + j] + (has_bias ? launch.operand(scores + 1)[j] : 0);
  };
  std::vector<std::int64_t> chosen;
  while (std::ssize(chosen) < launch.op().attributes.integer("k")) {
    std::int64_t next = -1;
    for (std::int64_t j = 0; j < width; ++j) {
      if (contains(chosen, j)) continue;
      if (next < 0 || compared(j) > compared(next)) next = j;
    }
    chosen.push_back(next);
  }
  return chosen;
}

/// The number by which the chosen scores are divided.
double divisor(const Launch& launch, std::size_t scores, std::int64_t first, const std::vector<std::int64_t>& chosen) {
  if (!launch.op().attributes.flag("normalize")) return 1;
  double sum = 0;
  for (const std::int64_t j : chosen) sum += launch.operand(scores)[first + j];
  return sum;
}

void top_k_row(const Launch& launch, std::int64_t first, std::int64_t width) {
  const std::vector<std::int64_t> chosen = best(launch, 0, first, width);
  const double by = divisor(launch, 0, first, chosen);
  for (std::int64_t j = 0; j < width; ++j) {
    const bool is_chosen = contains(chosen, j);
    launch.result(0).set(first + j, is_chosen ? launch.operand(0)[first + j] / by : 0);
  }
}

void top_k_gradient_row(const Launch& launch, std::int64_t first, std::int64_t width) {
  const Reader dy = launch.operand(0);
  const std::vector<std::int64_t> chosen = best(launch, 1, first, width);
  const double by = divisor(launch, 1, first, chosen);
  double sum = 0;
  if (launch.op().attributes.flag("normalize")) {
    for (const std::int64_t j : chosen) sum += dy[first + j] * launch.operand(1)[first + j] / by;
  }
  for (std::int64_t j = 0; j < width; ++j) {
    const bool is_chosen = contains(chosen, j);
    launch.result(0).set(first + j, is_chosen ? (dy[first + j] - sum) / by : 0);
  }
}

void add_scores(Registration& registration) {
  add_op(registration, {.name = "softmax",
                        .documentation = "x […  E] -> y […  E]: exp(x) divided by its sum over the last dim; y "
                                         "is f32 where x is shorter.",
                        .infer = infer_softmax,
                        .precision = OperandPrecision::any,
                        .gradient = softmax_rule,
                        .iterate = keep_rows_whole});
  add_op(registration,
         {.name = "softmax_gradient",
          .documentation = "dy […  E], y […  E] -> dx […  E]: y · (dy - Σ dy · y), y being the result of softmax "
                           "(attribute dtype: the type of dx).",
          .operands = 2,
          .infer = infer_row_gradient,
          .in_place = {0, 1},
          .iterate = keep_rows_whole});
  add_op(
      registration,
      {.name = "top_k",
       .documentation =
           "scores […  E], bias [E] or nothing -> gates […  E]: the k largest of each row of scores, and 0 for the "
           "others (attributes k; normalize: divides them by their sum). Of equals, the first ones are chosen. A bias "
           "is added where they are compared, and nowhere else. The gradient of a bias that is a running average is "
           "load_deficit of the gates; any other bias has none.",
       .optional_operands = 1,
       .infer_sized = infer_top_k,
       .gradient = top_k_rule,
       .iterate = keep_rows_whole,
       .chooses = 1});
  add_op(registration, {.name = "top_k_gradient",
                        .documentation = "dgates […  E] and the operands of top_k -> dscores […  E].",
                        .operands = 2,
                        .optional_operands = 1,
                        .infer = infer_top_k_gradient,
                        .iterate = keep_rows_whole});
}

}  // namespace

void register_routing(Registration& registration) {
  add_scores(registration);
  registration.add(reference::kernel({"softmax", "r", "r", prepare_rows<softmax_row>}));
  registration.add(reference::kernel({"softmax_gradient", "rr", "r", prepare_rows<softmax_gradient_row>}));
  for (const std::string bias : {"", "r"}) {
    registration.add(reference::kernel({"top_k", "r" + bias, "r", prepare_rows<top_k_row>}));
    registration.add(reference::kernel({"top_k_gradient", "rr" + bias, "r", prepare_rows<top_k_gradient_row>}));
  }
}

}  // namespace strata::ops
