#include "ops/op_base.hpp"

/// \file
/// Ops on flat buffers and scalars. The compiler emits them outside of graphs.

namespace strata::ops {
namespace {

/// Base of ops that never occur in graphs.
class FlatOp : public NamedOp {
 public:
  FlatOp(std::string name, std::string documentation, FlatSignature signature, bool reads_results = false)
      : NamedOp(std::move(name), std::move(documentation)),
        signature_(std::move(signature)),
        reads_results_(reads_results) {}

  std::vector<TensorType> infer(const Graph& /*graph*/, const Node& node) const override {
    require(false, node, "works on flat buffers, not in graphs");
    return {};
  }
  std::optional<FlatSignature> flat_signature(const Attributes& /*attributes*/) const override { return signature_; }
  bool reads_result(int /*result*/) const override { return reads_results_; }

 private:
  FlatSignature signature_;
  bool reads_results_;
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

}  // namespace

void register_flat(Registration& registration) {
  registration.add(std::make_unique<FlatOp>(kFillZero, "() -> x: zeros.", FlatSignature{.inputs = 0}));
  registration.add(std::make_unique<WeightedSum>());
  registration.add(std::make_unique<FlatOp>(kAccumulate, "x -> y: adds x to y.", FlatSignature{.inputs = 1}, true));
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
}

}  // namespace strata::ops
