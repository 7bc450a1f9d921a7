/// Lion: the sign of a mix of the gradient and its moving average (Chen et al., "Symbolic Discovery of Optimization
/// Algorithms", NeurIPS 2023). It keeps one state. Its best learning rate is about a tenth of AdamW's, and its best
/// weight decay about ten times as large.

#include "strata/error.hpp"
#include "strata/optimizer.hpp"
#include "strata/plugin.hpp"
#include "strata/update_kernel.hpp"

namespace {

using namespace strata;

template <class T>
struct LionRule {
  static constexpr std::size_t kStates = 1;

  explicit LionRule(const Attributes& attributes)
      : beta1(static_cast<T>(attributes.number("beta1"))), beta2(static_cast<T>(attributes.number("beta2"))) {}

  void begin(const UpdateStep& step) { learning_rate = static_cast<T>(step.learning_rate); }

  T operator()(T parameter, T gradient, T weight_decay, T* momentum) const {
    const T mixed = beta1 * *momentum + (1 - beta1) * gradient;
    *momentum = beta2 * *momentum + (1 - beta2) * gradient;
    const T direction = static_cast<T>(mixed > 0) - static_cast<T>(mixed < 0);
    return parameter - learning_rate * (direction + weight_decay * parameter);
  }

  T beta1;
  T beta2;
  T learning_rate = 0;
};

class Lion final : public Optimizer {
 public:
  static OptionSchema schema() {
    return {{.name = "betas",
             .type = OptionType::numbers,
             .default_value = std::vector<double>{0.9, 0.99},
             .documentation = "Share of the momentum in the direction, and decay rate of the momentum.",
             .minimum = 0,
             .maximum = 0.999999}};
  }

  explicit Lion(const Options& options) {
    const std::vector<double>& betas = options.numbers("betas");
    if (betas.size() != 2) {
      throw OptionError("betas", "found a list of " + std::to_string(betas.size()) + "; accepted: a list of 2 numbers");
    }
    beta1_ = betas[0];
    beta2_ = betas[1];
  }

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& /*parameter*/) const override {
    return {{"momentum"}};
  }

  void update(UpdateContext& context) const override {
    context.update("lion_update", {{"beta1", beta1_}, {"beta2", beta2_}});
  }

  void define(DefinedUpdate& update) const override {
    std::vector<double>& momentum = update.states.at("momentum");
    for (std::size_t i = 0; i < update.values.size(); ++i) {
      const double g = update.gradient[i];
      const double mixed = beta1_ * momentum[i] + (1 - beta1_) * g;
      double sign = 0;
      if (mixed > 0) sign = 1;
      if (mixed < 0) sign = -1;
      update.values[i] -= update.learning_rate * (sign + update.weight_decay * update.values[i]);
      momentum[i] = beta2_ * momentum[i] + (1 - beta2_) * g;
    }
  }

 private:
  double beta1_ = 0;
  double beta2_ = 0;
};

class LionFactory final : public FactoryOf<OptimizerFactory, Lion> {
 public:
  void provide(Registration& registration, const Options& /*options*/) const override {
    provide_update<LionRule>(registration,
                             {"lion_update",
                              "gradient, scale [] f64 -> values, momentum (attributes beta1, beta2, weight_decay, "
                              "decay_elements: the first so many elements of the bucket are decayed; lr_factor): Chen "
                              "et al., \"Symbolic Discovery of Optimization Algorithms\", NeurIPS 2023.",
                              {"momentum"}});
  }
};

}  // namespace

STRATA_PLUGIN(optimizer, "lion", "0.1.0", "Apache-2.0",
              "Lion: the sign of momentum (Chen et al., 2023). One state, half of AdamW's memory.", LionFactory);
