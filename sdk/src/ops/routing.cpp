#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op_base.hpp"

/// \file
/// How tokens choose experts: scores, the choice of the best, and losses that keep the choice useful. All ops work on
/// rows […  E] whose last dim is not sharded.

namespace strata::ops {
namespace {

/// An op that needs the last dim of its rows whole.
class RowOp : public DescribedOp {
 public:
  using DescribedOp::DescribedOp;
  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = DescribedOp::iteration(graph, node);
    space.whole.insert(space.operands[0].back());
    return space;
  }
};

void require_rows(const TensorType& type, const Node& node) {
  require_float(type, node);
  require(!type.dims.empty(), node, "the operand has at least one dim");
}

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

/// exp(x - the largest) of a row, and their sum.
struct Exponentials {
  Exponentials(const Reader& x, std::int64_t first, std::int64_t count) : values(static_cast<std::size_t>(count)) {
    largest = x[first];
    for (std::int64_t j = 1; j < count; ++j) largest = std::max(largest, x[first + j]);
    for (std::int64_t j = 0; j < count; ++j) {
      values[static_cast<std::size_t>(j)] = std::exp(x[first + j] - largest);
      sum += values[static_cast<std::size_t>(j)];
    }
  }

  [[nodiscard]] double probability(std::int64_t j) const { return values[static_cast<std::size_t>(j)] / sum; }

  double largest = 0;
  double sum = 0;
  std::vector<double> values;
};

/// A kernel that computes row after row: body(launch, first element of the row, elements of the row).
template <void (*kBody)(const Launch&, std::int64_t, std::int64_t)>
Work prepare_rows(const OpInstance& op) {
  return [count = rows(op.operands[0]), width = columns(op.operands[0])](const Launch& launch) {
    for (std::int64_t row = 0; row < count; ++row) kBody(launch, row * width, width);
  };
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

/// Scores, and behind them a bias of each of the row's elements.
class TopK final : public RowOp {
 public:
  using RowOp::RowOp;
  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const Types types = operand_types(graph, node, node.operands.size() == 2 ? 2 : 1);
    require_rows(types[0], node);
    if (types.size() == 2) require_dims(types[1], {types[0].dims.back()}, node);
    const std::int64_t k = node.attributes.integer("k");
    const std::int64_t all = graph.sizes.at(types[0].dims.back());
    require(k >= 1 && k <= all, node,
            "k must be from 1 to " + std::to_string(all) + ", the size of " + types[0].dims.back() + "; found " +
                std::to_string(k));
    return {types[0]};
  }
  bool only_chooses(int operand) const override { return operand == 1; }
};

class TopKGradient final : public RowOp {
 public:
  using RowOp::RowOp;
  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const Types types = operand_types(graph, node, node.operands.size() == 3 ? 3 : 2);
    require_rows(types[0], node);
    require_same(types[1], types[0], node);
    if (types.size() == 3) require_dims(types[2], {types[0].dims.back()}, node);
    return {types[0]};
  }
};

void top_k_rule(GradientContext& context) {
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
      if (std::find(chosen.begin(), chosen.end(), j) != chosen.end()) continue;
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
    const bool is_chosen = std::find(chosen.begin(), chosen.end(), j) != chosen.end();
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
    const bool is_chosen = std::find(chosen.begin(), chosen.end(), j) != chosen.end();
    launch.result(0).set(first + j, is_chosen ? (dy[first + j] - sum) / by : 0);
  }
}

// --- losses

/// A loss of rows, or its gradient. All dims but the first are whole, because the loss is one of a whole sequence.
class SequenceOp : public DescribedOp {
 public:
  using DescribedOp::DescribedOp;
  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = DescribedOp::iteration(graph, node);
    space.whole.insert(space.operands[0].begin() + 1, space.operands[0].end());
    return space;
  }
};

class BalanceLoss final : public SequenceOp {
 public:
  using SequenceOp::SequenceOp;
  bool only_chooses(int operand) const override { return operand == 1; }
};

void require_weight(const Node& node) { require(node.attributes.number("weight") >= 0, node, "weight is at least 0"); }

Types infer_balance(const Types& types, const Node& node) {
  require_rows(types[0], node);
  require(types[0].dims.size() >= 2, node, "the scores have a dim of sequences and one of experts");
  require_dims(types[1], types[0].dims, node);
  require_weight(node);
  return {types[0]};
}

/// The experts of one sequence: scores' sums and how often each expert is chosen, times their number.
class Balance {
 public:
  Balance(const Launch& launch, std::int64_t sequence)
      : scores_(launch.operand(0)), width_(columns(launch.op().operands[0])) {
    const std::int64_t tokens = rows(launch.op().operands[0]) / launch.op().operands[0].shape[0];
    first_ = sequence * tokens;
    end_ = first_ + tokens;
    load_.resize(static_cast<std::size_t>(width_));
    const Reader gates = launch.operand(1);
    double chosen = 0;
    for (std::int64_t i = first_ * width_; i < end_ * width_; ++i) {
      const double is_chosen = gates[i] != 0 ? 1 : 0;
      load_[static_cast<std::size_t>(i % width_)] += is_chosen;
      chosen += is_chosen;
    }
    for (double& load : load_) load *= static_cast<double>(width_) / std::max(chosen, 1.0);
  }

  /// Calls body(token, sum of the token's scores, mean load of its experts by score).
  template <class Body>
  void each_token(const Body& body) const {
    for (std::int64_t token = first_; token < end_; ++token) {
      double sum = 0;
      double weighted = 0;
      for (std::int64_t j = 0; j < width_; ++j) {
        const double score = scores_[token * width_ + j];
        sum += score;
        weighted += score * load(j);
      }
      body(token, sum, weighted / sum);
    }
  }
  [[nodiscard]] double load(std::int64_t expert) const { return load_[static_cast<std::size_t>(expert)]; }
  [[nodiscard]] std::int64_t width() const { return width_; }

 private:
  Reader scores_;
  std::int64_t width_;
  std::int64_t first_ = 0;
  std::int64_t end_ = 0;
  std::vector<double> load_;
};

Work prepare_balance_loss(const OpInstance& op) {
  return [weight = op.attributes.number("weight"), count = op.operands[0].shape[0]](const Launch& launch) {
    double total = 0;
    for (std::int64_t sequence = 0; sequence < count; ++sequence) {
      Balance(launch, sequence).each_token([&](std::int64_t /*token*/, double /*sum*/, double mean) { total += mean; });
    }
    launch.result(0).set(0, weight * total);
  };
}

Work prepare_balance_loss_gradient(const OpInstance& op) {
  return [weight = op.attributes.number("weight"), count = op.operands[0].shape[0]](const Launch& launch) {
    for (std::int64_t sequence = 0; sequence < count; ++sequence) {
      const Balance balance(launch, sequence);
      balance.each_token([&](std::int64_t token, double sum, double mean) {
        for (std::int64_t j = 0; j < balance.width(); ++j) {
          launch.result(0).set(token * balance.width() + j, weight * (balance.load(j) - mean) / sum);
        }
      });
    }
  };
}

Work prepare_z_loss(const OpInstance& op) {
  return [weight = op.attributes.number("weight"), count = rows(op.operands[0]),
          width = columns(op.operands[0])](const Launch& launch) {
    double total = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      const Exponentials exponentials(launch.operand(0), row * width, width);
      const double z = exponentials.largest + std::log(exponentials.sum);
      total += z * z;
    }
    launch.result(0).set(0, weight * total);
  };
}

void z_loss_gradient_row(const Launch& launch, std::int64_t first, std::int64_t width) {
  const Exponentials exponentials(launch.operand(0), first, width);
  const double z = exponentials.largest + std::log(exponentials.sum);
  const double factor = 2 * launch.op().attributes.number("weight") * z;
  for (std::int64_t j = 0; j < width; ++j) launch.result(0).set(first + j, factor * exponentials.probability(j));
}

/// The loss of an op whose gradient ops read its operands.
GradientRule loss_rule(const std::string& gradient) {
  return [gradient](GradientContext& context) {
    const Node& node = context.node();
    context.contribute(0, context.emit(0, gradient, node.operands, node.attributes)[0]);
  };
}

Types infer_total(const Types& types, const Node& node) {
  require_rows(types[0], node);
  require_weight(node);
  if (types.size() == 2) infer_balance(types, node);
  return {{{}, DType::f64}};
}

void add_scores(Registration& registration) {
  add_op<RowOp>(registration, {.name = "softmax",
                               .documentation = "x […  E] -> y […  E]: exp(x) divided by its sum over the last dim; y "
                                                "is f32 where x is shorter.",
                               .infer = infer_softmax,
                               .precision = OperandPrecision::any,
                               .gradient = softmax_rule});
  add_op<RowOp>(
      registration,
      {.name = "softmax_gradient",
       .documentation = "dy […  E], y […  E] -> dx […  E]: y · (dy - Σ dy · y), y being the result of softmax "
                        "(attribute dtype: the type of dx).",
       .operands = 2,
       .infer = infer_row_gradient,
       .in_place = {0, 1}});
  add_op<TopK>(
      registration,
      {.name = "top_k",
       .documentation =
           "scores […  E], bias [E] or nothing -> gates […  E]: the k largest of each row of scores, and 0 for the "
           "others (attributes k; normalize: divides them by their sum). Of equals, the first ones are chosen. A bias "
           "is added where they are compared, and nowhere else.",
       .infer = {},
       .gradient = top_k_rule});
  add_op<TopKGradient>(registration, {.name = "top_k_gradient",
                                      .documentation = "dgates […  E] and the operands of top_k -> dscores […  E].",
                                      .infer = {}});
}

void add_losses(Registration& registration) {
  add_op<BalanceLoss>(
      registration,
      {.name = "balance_loss",
       .documentation =
           "scores [batch …  E], gates [batch …  E] -> [] f64: weight · E · Σ over tokens and experts of the share of "
           "the sequence's choices that the expert has, times the token's score divided by the sum of its scores "
           "(attribute weight); weight · 1 a token if all experts are chosen alike. DeepSeek-AI, \"DeepSeek-V3\", "
           "2024.",
       .operands = 2,
       .infer = infer_total,
       .gradient = loss_rule("balance_loss_gradient")});
  add_op<SequenceOp>(registration, {.name = "balance_loss_gradient",
                                    .documentation = "the operands of balance_loss -> dscores [batch …  E].",
                                    .operands = 2,
                                    .infer = infer_balance});
  add_op<RowOp>(registration,
                {.name = "z_loss",
                 .documentation = "x […  E] -> [] f64: weight · Σ over rows of the square of ln Σ exp(x) (attribute "
                                  "weight), which keeps scores small; Zoph et al., \"ST-MoE\", 2022.",
                 .infer = infer_total,
                 .precision = OperandPrecision::any,
                 .gradient = loss_rule("z_loss_gradient")});
  add_op<RowOp>(registration, {.name = "z_loss_gradient",
                               .documentation = "x […  E] -> dx […  E] of z_loss.",
                               .infer = [](const Types& types, const Node& node) -> Types {
                                 require_rows(types[0], node);
                                 require_weight(node);
                                 return {types[0]};
                               }});
}

}  // namespace

void register_routing(Registration& registration) {
  add_scores(registration);
  add_losses(registration);
  registration.add(reference::kernel({"softmax", "r", "r", prepare_rows<softmax_row>}));
  registration.add(reference::kernel({"softmax_gradient", "rr", "r", prepare_rows<softmax_gradient_row>}));
  for (const std::string bias : {"", "r"}) {
    registration.add(reference::kernel({"top_k", "r" + bias, "r", prepare_rows<top_k_row>}));
    registration.add(reference::kernel({"top_k_gradient", "rr" + bias, "r", prepare_rows<top_k_gradient_row>}));
  }
  registration.add(reference::kernel({"balance_loss", "rr", "d", prepare_balance_loss}));
  registration.add(reference::kernel({"balance_loss_gradient", "rr", "r", prepare_balance_loss_gradient}));
  registration.add(reference::kernel({"z_loss", "r", "d", prepare_z_loss}));
  registration.add(reference::kernel({"z_loss_gradient", "r", "r", prepare_rows<z_loss_gradient_row>}));
}

}  // namespace strata::ops
