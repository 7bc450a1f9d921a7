/// Stochastic gradient descent, plain or with momentum.

#include "strata/error.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"

namespace {

using namespace strata;

class Sgd final : public Optimizer {
 public:
  static OptionSchema schema() {
    return {option::number("momentum", 0.0, 0, 0.999999, "Decay rate of the sum of gradients; 0 keeps no state."),
            option::boolean("nesterov", false, "Look ahead along the momentum (Nesterov).")};
  }

  explicit Sgd(const Options& options) : momentum_(options.number("momentum")), nesterov_(options.boolean("nesterov")) {
    if (nesterov_ && momentum_ == 0) {
      throw OptionError("nesterov", "found true with a momentum of 0; accepted: false, or a momentum above 0");
    }
  }

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& /*parameter*/) const override {
    return momentum_ > 0 ? std::vector<OptimizerState>{{"momentum"}} : std::vector<OptimizerState>{};
  }

  void update(UpdateContext& context) const override {
    if (momentum_ > 0) {
      context.update("sgd_momentum_update", {{"momentum", momentum_}, {"nesterov", nesterov_}});
    } else {
      context.update("sgd_update", {});
    }
  }

  void define(DefinedUpdate& update) const override {
    for (std::size_t i = 0; i < update.values.size(); ++i) {
      double direction = update.gradient[i];
      if (momentum_ > 0) {
        double& buffer = update.states.at("momentum")[i];
        buffer = momentum_ * buffer + update.gradient[i];
        direction = nesterov_ ? update.gradient[i] + momentum_ * buffer : buffer;
      }
      update.values[i] -= update.learning_rate * (direction + update.weight_decay * update.values[i]);
    }
  }

 private:
  double momentum_;
  bool nesterov_;
};

using SgdFactory = FactoryOf<OptimizerFactory, Sgd>;

}  // namespace

STRATA_PLUGIN(optimizer, "sgd", "0.1.0", "Apache-2.0",
              "Stochastic gradient descent, plain or with heavy-ball or Nesterov momentum.", SgdFactory);
