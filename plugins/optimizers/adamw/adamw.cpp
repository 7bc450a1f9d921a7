/// AdamW: Adam with decoupled weight decay (Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019).

#include <cmath>

#include "strata/error.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"

namespace {

using namespace strata;

class AdamW final : public Optimizer {
 public:
  static OptionSchema schema() {
    return {{.name = "betas",
             .type = OptionType::numbers,
             .default_value = std::vector<double>{0.9, 0.95},
             .documentation = "Decay rates of the two moments.",
             .minimum = 0,
             .maximum = 0.999999},
            {.name = "epsilon",
             .type = OptionType::number,
             .default_value = 1e-8,
             .documentation = "Added to the root of the second moment.",
             .minimum = 1e-30}};
  }

  explicit AdamW(const Options& options) : epsilon_(options.number("epsilon")) {
    const std::vector<double>& betas = options.numbers("betas");
    if (betas.size() != 2) {
      throw OptionError("betas", "found a list of " + std::to_string(betas.size()) + "; accepted: a list of 2 numbers");
    }
    beta1_ = betas[0];
    beta2_ = betas[1];
  }

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& /*parameter*/) const override {
    return {{"first_moment"}, {"second_moment"}};
  }

  void update(UpdateContext& context) const override {
    context.update("adamw_update", {{"beta1", beta1_}, {"beta2", beta2_}, {"epsilon", epsilon_}});
  }

  void define(DefinedUpdate& update) const override {
    std::vector<double>& first = update.states.at("first_moment");
    std::vector<double>& second = update.states.at("second_moment");
    const auto t = static_cast<double>(update.step);
    for (std::size_t i = 0; i < update.values.size(); ++i) {
      const double g = update.gradient[i];
      first[i] = beta1_ * first[i] + (1 - beta1_) * g;
      second[i] = beta2_ * second[i] + (1 - beta2_) * g * g;
      const double unbiased_first = first[i] / (1 - std::pow(beta1_, t));
      const double unbiased_second = second[i] / (1 - std::pow(beta2_, t));
      const double direction = unbiased_first / (std::sqrt(unbiased_second) + epsilon_);
      update.values[i] -= update.learning_rate * (direction + update.weight_decay * update.values[i]);
    }
  }

 private:
  double beta1_ = 0;
  double beta2_ = 0;
  double epsilon_;
};

using AdamWFactory = FactoryOf<OptimizerFactory, AdamW>;

}  // namespace

STRATA_PLUGIN(optimizer, "adamw", "0.1.0", "Apache-2.0", "AdamW: Adam with decoupled weight decay. Two states.",
              AdamWFactory);
