#include "factored_ops.hpp"

#include <memory>
#include <string>
#include <utility>

#include "strata/error.hpp"
#include "strata/op.hpp"

namespace adafactor {

using namespace strata;

namespace {

class FactoredOp final : public OpDefinition {
 public:
  FactoredOp(std::string name, std::string documentation, FlatSignature signature)
      : name_(std::move(name)), documentation_(std::move(documentation)), signature_(std::move(signature)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string documentation() const override { return documentation_; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& /*graph*/, const Node& node) const override {
    throw VerificationError("op " + node.op + " works on pieces of parameters, not in graphs");
  }
  /// A skipped step keeps values and states.
  [[nodiscard]] bool reads_result(int /*result*/) const override {
    return signature_.is_update || !signature_.states.empty();
  }
  [[nodiscard]] std::optional<FlatSignature> flat_signature(const Attributes& /*attributes*/) const override {
    return signature_;
  }

 private:
  std::string name_;
  std::string documentation_;
  FlatSignature signature_;
};

}  // namespace

void register_ops(Registration& registration) {
  const auto add = [&](const char* name, const char* documentation, FlatSignature signature) {
    registration.add(std::make_unique<FactoredOp>(name, documentation, std::move(signature)));
  };
  add(kSums,
      "gradient, scale [] f64 -> sums f64: sums of the squared gradient plus epsilon over every row and every column "
      "of "
      "the parameter (attributes epsilon; dims, rows, columns: the parameter's dims and those of its two sides).",
      {.inputs = 2, .elementwise = false, .has_own_sizes = true});
  add(kMoments,
      "sums f64, scale [] f64 -> row_moment, column_moment (attributes decay, dims, rows, columns): moving averages of "
      "the means over rows and columns. Their decay rate at update t is 1 - t^-decay.",
      {.inputs = 2, .outputs = 0, .elementwise = false, .has_own_sizes = true, .states = {kRowMoment, kColumnMoment}});
  add(kNorm,
      "gradient, scale [] f64, row_moment, column_moment -> [] f64: the sum of squares of the direction, the gradient "
      "divided by the root of the second moment, which is the product of the two means over the mean of all.",
      {.inputs = 4, .elementwise = false});
  add(kUpdate,
      "gradient, scale [] f64, row_moment, column_moment, norm [] f64, squares [] f64 -> values (attributes clip, "
      "smallest, weight_decay, decay_elements, lr_factor, dims, rows, columns): a step along the direction, whose root "
      "mean square is clipped. Its length is relative to that of the parameter, whose sum of squares is `squares`, if "
      "smallest is above 0: Shazeer, Stern, \"Adafactor: Adaptive Learning Rates with Sublinear Memory Cost\", ICML "
      "2018.",
      {.inputs = 6, .is_update = true});
}

}  // namespace adafactor
