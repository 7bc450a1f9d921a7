/// Signum: the sign of the gradient's moving average (Bernstein et al., "signSGD: Compressed Optimisation for
/// Non-Convex Problems", ICML 2018).

#include <cmath>

#include "strata/optimizer.hpp"
#include "strata/update_kernel.hpp"

namespace {

using namespace strata;

/// The update of one element.
template <class T>
struct SignumRule {
  static constexpr std::size_t kStates = 1;

  explicit SignumRule(const Attributes& attributes) : beta(static_cast<T>(attributes.number("beta"))) {}

  void begin(const UpdateStep& step) { learning_rate = static_cast<T>(step.learning_rate); }

  T operator()(T parameter, T gradient, T weight_decay, T* average) const {
    *average = beta * *average + (1 - beta) * gradient;
    const T sign = static_cast<T>(*average > 0) - static_cast<T>(*average < 0);
    return parameter - learning_rate * (sign + weight_decay * parameter);
  }

  T beta;
  T learning_rate = 0;
};

class Signum final : public Optimizer {
 public:
  explicit Signum(double beta) : beta_(beta) {}

  [[nodiscard]] std::vector<OptimizerState> states(const ParameterDescription& /*parameter*/) const override {
    return {{"momentum"}};
  }

  void update(UpdateContext& context) const override { context.update("signum_update", {{"beta", beta_}}); }

  void define(DefinedUpdate& update) const override {
    std::vector<double>& average = update.states.at("momentum");
    for (std::size_t i = 0; i < update.values.size(); ++i) {
      average[i] = beta_ * average[i] + (1 - beta_) * update.gradient[i];
      const double sign = average[i] == 0 ? 0 : std::copysign(1.0, average[i]);
      update.values[i] -= update.learning_rate * (sign + update.weight_decay * update.values[i]);
    }
  }

 private:
  double beta_;
};

class SignumFactory final : public OptimizerFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& /*options*/) const override {
    provide_update<SignumRule>(registration,
                               {"signum_update",
                                "gradient, scale [] f64 -> values, average (attributes beta, weight_decay, "
                                "decay_elements, lr_factor): Bernstein et al., ICML 2018.",
                                {"momentum"}});
  }

  [[nodiscard]] std::unique_ptr<Optimizer> create(const Options& options) const override {
    return std::make_unique<Signum>(options.number("beta"));
  }

 private:
  OptionSchema schema_{{.name = "beta",
                        .type = OptionType::number,
                        .default_value = 0.9,
                        .documentation = "Decay rate of the gradient's moving average.",
                        .minimum = 0,
                        .maximum = 0.999999}};
};

}  // namespace

STRATA_PLUGIN(optimizer, "signum", "1.0.0", "MIT", "Signum: the sign of the gradient's moving average.", SignumFactory);
