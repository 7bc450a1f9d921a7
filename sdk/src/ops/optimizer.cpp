#include "ops/op_base.hpp"

/// \file
/// Parameter updates on this rank's piece of a flat bucket. If the gradient scale is not finite, an update changes
/// nothing.

namespace strata::ops {
namespace {

class UpdateOp : public NamedOp {
 public:
  using NamedOp::NamedOp;

  std::vector<TensorType> infer(const Graph& /*graph*/, const Node& node) const override {
    require(false, node, "works on flat buffers, not in graphs");
    return {};
  }
  /// A skipped update keeps the previous values and states, which are in the results.
  bool reads_results() const override { return true; }

 protected:
  /// The operands are the gradient and its scale.
  static FlatSignature update(std::vector<std::string> states, std::vector<std::string> hyperparameters) {
    return {.inputs = 2, .is_update = true, .states = std::move(states), .hyperparameters = std::move(hyperparameters)};
  }
};

class AdamW final : public UpdateOp {
 public:
  AdamW()
      : UpdateOp("adamw_update",
                 "gradient, scale [] f64 -> values, first_moment, second_moment (attributes beta1, beta2, epsilon, "
                 "weight_decay, decay_elements: the first so many elements are decayed): Loshchilov, Hutter, "
                 "\"Decoupled Weight Decay Regularization\", 2019.") {}
  std::optional<FlatSignature> flat_signature(const Attributes& /*attributes*/) const override {
    return update({"first_moment", "second_moment"}, {"beta1", "beta2", "epsilon"});
  }
};

class Sgd final : public UpdateOp {
 public:
  Sgd()
      : UpdateOp("sgd_update",
                 "gradient, scale [] f64 -> values, momentum (attributes momentum, weight_decay, decay_elements: the "
                 "first so many elements are decayed): gradient descent, with a state only if the attribute momentum "
                 "is above 0.") {}
  std::optional<FlatSignature> flat_signature(const Attributes& attributes) const override {
    const bool has_momentum = attributes.has("momentum") && attributes.number("momentum") > 0;
    return update(has_momentum ? std::vector<std::string>{"momentum"} : std::vector<std::string>{}, {"momentum"});
  }
};

}  // namespace

void register_optimizer(Registration& registration) {
  registration.add(std::make_unique<AdamW>());
  registration.add(std::make_unique<Sgd>());
}

}  // namespace strata::ops
