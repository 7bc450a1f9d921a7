#include <algorithm>
#include <cmath>

#include "ops/op_base.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/internal/group_runs.hpp"
#include "strata/op.hpp"

/// \file
/// Ops on flat buffers and scalars. The compiler emits them outside of graphs.

namespace strata::ops {
namespace {

/// Adds to what its result holds.
class AccumulateOp final : public FlatOp {
 public:
  using FlatOp::FlatOp;
  bool reads_result(int /*result*/) const override { return true; }
};

/// The name of the attribute with the factor of an operand.
std::string factor(std::size_t operand) { return "factor" + std::to_string(operand); }

/// Works in graphs too.
class WeightedSum final : public NamedOp {
 public:
  WeightedSum()
      : NamedOp(
            kWeightedSum,
            "x, y, … -> a·x + b·y + … (attributes factor0, factor1, …: one number per operand). A factor of 0 keeps "
            "what is not finite: 0 · NaN is NaN.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, node.operands.size());
    require(!types.empty(), node, "takes at least one operand");
    require_float(types[0], node);
    for (std::size_t i = 0; i < types.size(); ++i) {
      require_same(types[i], types[0], node);
      static_cast<void>(node.attributes.number(factor(i)));
    }
    return {types[0]};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    // Several operands would have to be partial over the same axes.
    if (node.operands.size() == 1) space.partial_operands = {0};
    return space;
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const Value dy = *context.cotangent(0);
      for (std::size_t i = 0; i < context.node().operands.size(); ++i) {
        const int operand = static_cast<int>(i);
        if (!context.needs_gradient(operand)) continue;
        const Attributes attributes{{factor(0), context.node().attributes.number(factor(i))}};
        context.contribute(operand, context.emit(operand, kWeightedSum, {dy}, attributes)[0]);
      }
    };
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::common; }

  std::optional<FlatSignature> flat_signature(const Attributes& attributes) const override {
    return FlatSignature{.inputs = static_cast<int>(attributes.values().size())};
  }
  std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
};

Work prepare_fill_zero(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, 0.0);
  };
}

Work prepare_accumulate(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, y.get(i) + x[i]);
  };
}

Work prepare_weighted_sum(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  std::vector<double> factors;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    factors.push_back(op.attributes.number("factor" + std::to_string(i)));
  }
  return [count, factors = std::move(factors)](const Launch& launch) {
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0.0;
      for (std::size_t k = 0; k < factors.size(); ++k) sum += factors[k] * launch.operand(k)[i];
      y.set(i, sum);
    }
  };
}

Work prepare_sum_of_squares(const OpInstance& op) {
  const std::int64_t count = elements(op.operands[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
    launch.result(0).set(0, sum);
  };
}

Work prepare_group_squares(const OpInstance& op) {
  return [runs = group_runs(op), groups = elements(op.results[0])](const Launch& launch) {
    std::vector<double> sums(static_cast<std::size_t>(groups), 0.0);
    const Reader x = launch.operand(0);
    for (const GroupRun& run : runs) {
      for (std::int64_t i = run.begin; i < run.begin + run.length; ++i) {
        sums[static_cast<std::size_t>(run.group)] += x[i] * x[i];
      }
    }
    for (std::int64_t group = 0; group < groups; ++group) {
      launch.result(0).set(group, sums[static_cast<std::size_t>(group)]);
    }
  };
}

/// norm = √(sum of squares) / (count · loss scale); scale = min(1, clip / (norm + 1e-6)) / (count · loss scale).
/// If the norm is not finite, the scale is not finite either, and updates change nothing. Without targets the norm is
/// 0, and the scale 0 or, if such a step is to be skipped, NaN.
Work prepare_gradient_scale(const OpInstance& op) {
  const double clip = op.attributes.number("clip");
  const double empty = op.attributes.has("skips_empty") ? std::nan("") : 0.0;
  return [clip, empty](const Launch& launch) {
    const double sum_of_squares = launch.operand(0)[0];
    const double count = launch.operand(1)[0];
    const double divisor = count * launch.context().loss_scale;
    const double norm = count > 0.0 ? std::sqrt(sum_of_squares) / divisor : 0.0;
    const double factor = clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
    const double scale = std::isfinite(norm) ? factor / divisor : std::nan("");
    launch.result(0).set(0, count > 0.0 ? scale : empty);
    launch.result(1).set(0, norm);
  };
}

}  // namespace

void register_flat(Registration& registration) {
  registration.add(std::make_unique<FlatOp>(kFillZero, "() -> x: zeros.", FlatSignature{.inputs = 0}));
  registration.add(std::make_unique<WeightedSum>());
  registration.add(std::make_unique<AccumulateOp>(kAccumulate, "x -> y: adds x to y.", FlatSignature{.inputs = 1}));
  registration.add(std::make_unique<FlatOp>(kSumOfSquares, "x -> [] f64: the sum of the squares of all elements.",
                                            FlatSignature{.inputs = 1, .elementwise = false}));
  registration.add(std::make_unique<FlatOp>(
      kGroupSquares,
      "x -> [groups] f64: for each group of parameters, the sum of the squares of its elements in x, this rank's piece "
      "of a bucket (attributes groups: their number; ends: the end of each run in the bucket, and its group).",
      FlatSignature{.inputs = 1, .elementwise = false, .has_own_sizes = true}));
  registration.add(std::make_unique<FlatOp>(
      kGradientScale,
      "sum of squares [] f64, count [] f64 -> scale [] f64, norm [] f64 (attribute clip): the norm of the mean "
      "gradient, √(sum of squares) / (count · loss scale), and the factor of every gradient, min(1, clip / norm) / "
      "(count · loss scale), which is not finite if the norm is not. For a count of 0 the norm is 0 and the factor 0, "
      "or NaN with the attribute skips_empty, so that the update changes nothing.",
      FlatSignature{.inputs = 2, .outputs = 2, .elementwise = false}));
  registration.add(reference::kernel({ops::kFillZero, "", "r", prepare_fill_zero, false}));
  registration.add(reference::kernel({ops::kAccumulate, "r", "r", prepare_accumulate, false}));
  registration.add(reference::kernel({ops::kWeightedSum, "r*", "r", prepare_weighted_sum}));
  registration.add(reference::kernel({ops::kSumOfSquares, "r", "d", prepare_sum_of_squares}));
  registration.add(reference::kernel({ops::kGroupSquares, "r", "d", prepare_group_squares}));
  registration.add(reference::kernel({ops::kGradientScale, "dd", "dd", prepare_gradient_scale, false}));
}

}  // namespace strata::ops
