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

class WeightedSum final : public FlatOp {
 public:
  WeightedSum()
      : FlatOp(kWeightedSum,
               "x, y, … -> a·x + b·y + … (attributes factor0, factor1, …: one number per operand). A factor of 0 keeps "
               "what is not finite: 0 · NaN is NaN.",
               {}) {}

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
      kGradientScale,
      "sum of squares [] f64, count [] f64 -> scale [] f64, norm [] f64 (attribute clip): the norm of the mean "
      "gradient, √(sum of squares) / (count · loss scale), and the factor of every gradient, min(1, clip / norm) / "
      "(count · loss scale); 0 for no count, and not finite where the norm is not.",
      FlatSignature{.inputs = 2, .outputs = 2, .elementwise = false}));
}

}  // namespace strata::ops
