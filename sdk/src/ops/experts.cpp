#include <algorithm>
#include <vector>

#include "ops/op_base.hpp"
#include "ops/row_op.hpp"
#include "strata/activation.hpp"

/// \file
/// Gated feed-forward blocks of which every token uses some. Every op reads x […  C], gates […  E], gate matrices
/// [E F C], up matrices [E F C] and down matrices [E C F]: C is the width of the stream, E the experts, and F the inner
/// width. A gate of 0 chooses nothing.

namespace strata::ops {
namespace {

/// The first of an op's operands x, gates and matrices. Gradient ops have dy before them.
struct ExpertOperands {
  std::size_t x;
  [[nodiscard]] std::size_t gates() const { return x + 1; }
  [[nodiscard]] std::size_t gate() const { return x + 2; }
  [[nodiscard]] std::size_t up() const { return x + 3; }
  [[nodiscard]] std::size_t down() const { return x + 4; }
};

/// Checks that the five operands from `first.x` on fit together.
void require_experts(const Types& types, ExpertOperands first, const Node& node) {
  const TensorType& x = types[first.x];
  const TensorType& gates = types[first.gates()];
  const Dims& matrix = types[first.gate()].dims;
  require_float(x, node);
  require_float(gates, node);
  require(!x.dims.empty() && !gates.dims.empty() && without_last(x.dims) == without_last(gates.dims), node,
          "the gates have the dims of x with the experts for the last one, found " + to_string(x) + " and " +
              to_string(gates));
  require(matrix.size() == 3 && matrix[0] == gates.dims.back() && matrix[2] == x.dims.back(), node,
          "the gate matrices have the dims [" + gates.dims.back() + " inner " + x.dims.back() + "], found " +
              to_string(types[first.gate()]));
  require_same(types[first.gate()], {matrix, x.dtype}, node);
  require_same(types[first.up()], types[first.gate()], node);
  require_same(types[first.down()], {{matrix[0], matrix[2], matrix[1]}, x.dtype}, node);
  require_known_activation(node);
  require(node.attributes.integer("choices") >= 1, node,
          "choices must be at least 1, found " + std::to_string(node.attributes.integer("choices")));
}

double experts_flops(const Graph& graph, const Node& node, ExpertOperands first, int products) {
  double flops = 2.0 * products * static_cast<double>(node.attributes.integer("choices"));
  for (const std::int64_t size : graph.shape(node.operands[first.x])) flops *= static_cast<double>(size);
  return flops * static_cast<double>(graph.shape(node.operands[first.gate()])[1]);
}

/// The forward op or a gradient. `products`: matrix products for each choice of a token. `row_results`: results with
/// one row for each token. The activation needs whole sums over the stream.
OpDescription experts_op(OpDescription op, ExpertOperands first, int products, int row_results) {
  op.operands = first.x + 5;
  op.infer = [first, infer = std::move(op.infer)](const Types& types, const Node& node) {
    require_experts(types, first, node);
    if (first.x == 1) require_same(types[0], types[1], node);
    return infer(types, node);
  };
  op.first_precisions = std::vector<OperandPrecision>(first.gates(), OperandPrecision::low);
  op.first_precisions.push_back(OperandPrecision::any);
  op.precision = OperandPrecision::low;
  op.iterate = keep_rows_whole;
  op.flops = [first, products](const Graph& graph, const Node& node) {
    return experts_flops(graph, node, first, products);
  };
  op.routed_rows = RoutedRows{.marks = static_cast<int>(first.gates())};
  for (std::size_t operand = 0; operand <= first.x; ++operand) {
    op.routed_rows->operands.push_back(static_cast<int>(operand));
  }
  for (int result = 0; result < row_results; ++result) op.routed_rows->results.push_back(result);
  return op;
}

/// Emits one node that gives the gradients of the operands `of`, its results, if any is needed.
void contribute_together(GradientContext& context, const std::string& op, const std::vector<int>& of) {
  std::vector<int> needed;
  for (const int operand : of) {
    if (context.needs_gradient(operand)) needed.push_back(operand);
  }
  if (needed.empty()) return;
  // A node that gives a gradient to others than parameters is no W node.
  const auto main = std::ranges::find_if(
      needed, [&](int operand) { return !context.graph().node(context.operand(operand).node).is_parameter(); });
  const int operand = main == needed.end() ? needed.front() : *main;
  std::vector<Value> operands = context.node().operands;
  operands.insert(operands.begin(), *context.cotangent(0));
  Attributes attributes = context.node().attributes;
  if (of.size() == 3) attributes = gradient_attributes(context, operand, attributes);
  const std::vector<Value> gradients = context.emit(operand, op, operands, attributes);
  for (const int each : needed) context.contribute(each, gradients[static_cast<std::size_t>(each - of.front())]);
}

/// One launch of a reference kernel: what it computes for one token and one expert.
class ExpertsLaunch {
 public:
  ExpertsLaunch(const Launch& launch, ExpertOperands first)
      : width_(columns(launch.op().operands[first.x])),
        tokens_(rows(launch.op().operands[first.x])),
        experts_(columns(launch.op().operands[first.gates()])),
        inner_(launch.op().operands[first.gate()].shape[1]),
        x_(launch.values(first.x)),
        gates_(launch.values(first.gates())),
        gate_(launch.values(first.gate())),
        up_(launch.values(first.up())),
        down_(launch.values(first.down())),
        function_(activation_function(launch.op().attributes.word("kind"))),
        pre_(static_cast<std::size_t>(inner_)),
        ups_(static_cast<std::size_t>(inner_)) {}

  /// Calls body(token, expert, gate) for every choice, token by token, after the hidden values are computed.
  template <class Body>
  void each_choice(const Body& body) {
    for (std::int64_t token = 0; token < tokens_; ++token) {
      for (std::int64_t expert = 0; expert < experts_; ++expert) {
        const double gate = gates_[token * experts_ + expert];
        if (gate == 0) continue;
        for (std::int64_t f = 0; f < inner_; ++f) {
          pre_[static_cast<std::size_t>(f)] = product(gate_, expert, f, token);
          ups_[static_cast<std::size_t>(f)] = product(up_, expert, f, token);
        }
        body(token, expert, gate);
      }
    }
  }

  [[nodiscard]] double x(std::int64_t token, std::int64_t c) const { return x_[token * width_ + c]; }
  [[nodiscard]] std::int64_t wide(std::int64_t expert, std::int64_t f, std::int64_t c) const {
    return (expert * inner_ + f) * width_ + c;
  }
  [[nodiscard]] std::int64_t narrow(std::int64_t expert, std::int64_t c, std::int64_t f) const {
    return (expert * width_ + c) * inner_ + f;
  }
  [[nodiscard]] double pre(std::int64_t f) const { return pre_[static_cast<std::size_t>(f)]; }
  [[nodiscard]] double up(std::int64_t f) const { return ups_[static_cast<std::size_t>(f)]; }
  [[nodiscard]] double hidden(std::int64_t f) const { return function_.value(pre(f)) * up(f); }
  /// The gradient of hidden(f), without the gate.
  [[nodiscard]] double hidden_gradient(const Values& dy, std::int64_t token, std::int64_t expert,
                                       std::int64_t f) const {
    double sum = 0;
    for (std::int64_t c = 0; c < width_; ++c) sum += dy[token * width_ + c] * down_[narrow(expert, c, f)];
    return sum;
  }

  std::int64_t width_;
  std::int64_t tokens_;
  std::int64_t experts_;
  std::int64_t inner_;
  Values x_;
  Values gates_;
  Values gate_;
  Values up_;
  Values down_;
  const ActivationFunction& function_;

 private:
  [[nodiscard]] double product(const Values& matrix, std::int64_t expert, std::int64_t f, std::int64_t token) const {
    double sum = 0;
    for (std::int64_t c = 0; c < width_; ++c) sum += matrix[wide(expert, f, c)] * x(token, c);
    return sum;
  }

  std::vector<double> pre_;
  std::vector<double> ups_;
};

/// Sums of a result, which are written at the end.
class Sums {
 public:
  Sums(const Launch& launch, std::size_t result)
      : writer_(launch.result(result)), sums_(static_cast<std::size_t>(elements(launch.op().results[result]))) {}
  double& operator[](std::int64_t index) { return sums_[static_cast<std::size_t>(index)]; }
  void write() const {
    for (std::size_t i = 0; i < sums_.size(); ++i) writer_.set(static_cast<std::int64_t>(i), sums_[i]);
  }

 private:
  Writer writer_;
  std::vector<double> sums_;
};

Work prepare_experts(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    ExpertsLaunch s(launch, {0});
    Sums y(launch, 0);
    s.each_choice([&](std::int64_t token, std::int64_t expert, double gate) {
      for (std::int64_t f = 0; f < s.inner_; ++f) {
        const double hidden = gate * s.hidden(f);
        for (std::int64_t c = 0; c < s.width_; ++c) {
          y[token * s.width_ + c] += hidden * s.down_[s.narrow(expert, c, f)];
        }
      }
    });
    y.write();
  };
}

Work prepare_experts_input_gradient(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    ExpertsLaunch s(launch, {1});
    const Values dy = launch.values(0);
    Sums dx(launch, 0);
    Sums dgates(launch, 1);
    s.each_choice([&](std::int64_t token, std::int64_t expert, double gate) {
      for (std::int64_t f = 0; f < s.inner_; ++f) {
        const double dh = s.hidden_gradient(dy, token, expert, f);
        const double dpre = gate * dh * s.up(f) * s.function_.derivative(s.pre(f));
        const double dup = gate * dh * s.function_.value(s.pre(f));
        dgates[token * s.experts_ + expert] += dh * s.hidden(f);
        for (std::int64_t c = 0; c < s.width_; ++c) {
          const std::int64_t at = s.wide(expert, f, c);
          dx[token * s.width_ + c] += dpre * s.gate_[at] + dup * s.up_[at];
        }
      }
    });
    dx.write();
    dgates.write();
  };
}

Work prepare_experts_weight_gradient(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    ExpertsLaunch s(launch, {1});
    const Values dy = launch.values(0);
    Sums dgate(launch, 0);
    Sums dup(launch, 1);
    Sums ddown(launch, 2);
    s.each_choice([&](std::int64_t token, std::int64_t expert, double gate) {
      for (std::int64_t f = 0; f < s.inner_; ++f) {
        const double dh = gate * s.hidden_gradient(dy, token, expert, f);
        const double value = s.function_.value(s.pre(f));
        const double of_gate = dh * s.up(f) * s.function_.derivative(s.pre(f));
        for (std::int64_t c = 0; c < s.width_; ++c) {
          dgate[s.wide(expert, f, c)] += of_gate * s.x(token, c);
          dup[s.wide(expert, f, c)] += dh * value * s.x(token, c);
          ddown[s.narrow(expert, c, f)] += gate * dy[token * s.width_ + c] * value * s.up(f);
        }
      }
    });
    for (const Sums* sums : {&dgate, &dup, &ddown}) sums->write();
  };
}

}  // namespace

void register_experts(Registration& registration) {
  add_op(
      registration,
      experts_op(
          {.name = "experts",
           .documentation =
               "x […  C], gates […  E], gate [E F C], up [E F C], down [E C F] -> y […  C]: the sum over experts e of "
               "gates_e · down_e (f(gate_e x) · up_e x) (attributes kind: f as in activation; choices: how many "
               "gates of a token may differ from 0). An expert computes only tokens whose gate is not 0; such a "
               "gate has no gradient. Shazeer et al., \"Outrageously Large Neural Networks\", 2017.",
           .infer = [](const Types& types, const Node& /*node*/) -> Types { return {types[0]}; },
           .gradient =
               [](GradientContext& context) {
                 contribute_together(context, "experts_input_gradient", {0, 1});
                 contribute_together(context, "experts_weight_gradient", {2, 3, 4});
               }},
          {0}, 3, 1));
  add_op(registration,
         experts_op({.name = "experts_input_gradient",
                     .documentation = "dy […  C] and the operands of experts -> dx […  C], dgates […  E]: computes the "
                                      "hidden values again.",
                     .infer = [](const Types& types, const Node& /*node*/) -> Types {
                       return {types[1], types[2]};
                     }},
                    {1}, 5, 2));
  add_op(
      registration,
      experts_op({.name = "experts_weight_gradient",
                  .documentation =
                      "dy […  C] and the operands of experts -> dgate [E F C], dup [E F C], ddown [E C F] (attribute "
                      "dtype, where it is not that of x): computes the hidden values again.",
                  .infer = [](const Types& types, const Node& node) -> Types {
                    Types results(types.begin() + 3, types.end());
                    for (TensorType& type : results) type.dtype = result_type(node, type.dtype);
                    return results;
                  }},
                 {1}, 6, 0));
  registration.add(reference::kernel({"experts", "rrrrr", "r", prepare_experts}));
  registration.add(reference::kernel({"experts_input_gradient", "rrrrrr", "rr", prepare_experts_input_gradient}));
  registration.add(reference::kernel({"experts_weight_gradient", "rrrrrr", "rrr", prepare_experts_weight_gradient}));
}

}  // namespace strata::ops
