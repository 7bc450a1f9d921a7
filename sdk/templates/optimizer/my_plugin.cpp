/// my_plugin: an optimizer. Gradient descent along a moving average of the gradient.

#include "strata/optimizer.hpp"
#include "strata/update_kernel.hpp"

namespace {

/// The update of one element. The SDK makes of it an op, its reference kernel and a kernel for host memory.
template <class T>
struct MyPluginRule {
  static constexpr std::size_t kStates = 1;

  explicit MyPluginRule(const strata::Attributes& attributes) : decay(static_cast<T>(attributes.number("decay"))) {}

  void begin(const strata::UpdateStep& step) { learning_rate = static_cast<T>(step.learning_rate); }

  T operator()(T parameter, T gradient, T weight_decay, T* average) const {
    *average = decay * *average + (1 - decay) * gradient;
    return parameter - learning_rate * (*average + weight_decay * parameter);
  }

  T decay;
  T learning_rate = 0;
};

class MyPluginOptimizer final : public strata::Optimizer {
 public:
  explicit MyPluginOptimizer(double decay) : decay_(decay) {}

  /// Names of the states, as checkpoints contain them.
  [[nodiscard]] std::vector<strata::OptimizerState> states(
      const strata::ParameterDescription& /*parameter*/) const override {
    return {{"momentum"}};
  }

  void update(strata::UpdateContext& context) const override {
    context.update("my_plugin_update", {{"decay", decay_}});
  }

  /// The same update of one whole parameter in plain code. `strata verify` compares the two.
  void define(strata::DefinedUpdate& update) const override {
    std::vector<double>& average = update.states.at("momentum");
    for (std::size_t i = 0; i < update.values.size(); ++i) {
      average[i] = decay_ * average[i] + (1 - decay_) * update.gradient[i];
      update.values[i] -= update.learning_rate * (average[i] + update.weight_decay * update.values[i]);
    }
  }

 private:
  double decay_;
};

class MyPluginFactory final : public strata::OptimizerFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  void provide(strata::Registration& registration, const strata::Options& /*options*/) const override {
    strata::provide_update<MyPluginRule>(
        registration, {"my_plugin_update", "Gradient descent along a moving average.", {"momentum"}});
  }

  [[nodiscard]] std::unique_ptr<strata::Optimizer> create(const strata::Options& options) const override {
    return std::make_unique<MyPluginOptimizer>(options.number("decay"));
  }

 private:
  strata::OptionSchema schema_{{.name = "decay",
                                .type = strata::OptionType::number,
                                .default_value = 0.9,
                                .documentation = "Decay rate of the gradient's moving average.",
                                .minimum = 0,
                                .maximum = 0.999999}};
};

}  // namespace

STRATA_PLUGIN(optimizer, "my_plugin", "0.1.0", "Apache-2.0", "Descent along averaged gradients.", MyPluginFactory);
