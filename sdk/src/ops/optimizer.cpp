#include <cmath>

#include "strata/compiler_ops.hpp"
#include "strata/update_kernel.hpp"

/// \file
/// The updates that need no plugin: AdamW, and gradient descent. Several optimizers use them, such as `muon` for the
/// parameters that are no matrices.

namespace strata::ops {
namespace {

template <class T>
struct AdamWRule {
  static constexpr std::size_t kStates = 2;

  explicit AdamWRule(const Attributes& attributes)
      : beta1_of_step(attributes.number("beta1")),
        beta2_of_step(attributes.number("beta2")),
        beta1(static_cast<T>(beta1_of_step)),
        beta2(static_cast<T>(beta2_of_step)),
        one_minus_beta1(static_cast<T>(1.0 - beta1_of_step)),
        one_minus_beta2(static_cast<T>(1.0 - beta2_of_step)),
        epsilon(static_cast<T>(attributes.number("epsilon"))) {}

  void begin(const UpdateStep& step) {
    learning_rate = static_cast<T>(step.learning_rate);
    first_factor = static_cast<T>(1.0 / (1.0 - std::pow(beta1_of_step, step.updates)));
    second_factor = static_cast<T>(1.0 / (1.0 - std::pow(beta2_of_step, step.updates)));
  }

  T operator()(T parameter, T gradient, T weight_decay, T* moments) const {
    moments[0] = beta1 * moments[0] + one_minus_beta1 * gradient;
    moments[1] = beta2 * moments[1] + one_minus_beta2 * gradient * gradient;
    const T direction = moments[0] * first_factor / (std::sqrt(moments[1] * second_factor) + epsilon);
    return parameter - learning_rate * (direction + weight_decay * parameter);
  }

  double beta1_of_step;
  double beta2_of_step;
  T beta1;
  T beta2;
  T one_minus_beta1;
  T one_minus_beta2;
  T epsilon;
  T learning_rate = 0;
  /// 1 / (1 - beta^t)
  T first_factor = 1;
  T second_factor = 1;
};

template <class T>
struct SgdRule {
  static constexpr std::size_t kStates = 0;

  explicit SgdRule(const Attributes& /*attributes*/) {}
  void begin(const UpdateStep& step) { learning_rate = static_cast<T>(step.learning_rate); }

  T operator()(T parameter, T gradient, T weight_decay, T* /*states*/) const {
    return parameter - learning_rate * (gradient + weight_decay * parameter);
  }

  T learning_rate = 0;
};

template <class T>
struct SgdMomentumRule {
  static constexpr std::size_t kStates = 1;

  explicit SgdMomentumRule(const Attributes& attributes)
      : momentum(static_cast<T>(attributes.number("momentum"))), is_nesterov(attributes.flag("nesterov")) {}
  void begin(const UpdateStep& step) { learning_rate = static_cast<T>(step.learning_rate); }

  T operator()(T parameter, T gradient, T weight_decay, T* buffer) const {
    *buffer = momentum * *buffer + gradient;
    const T direction = is_nesterov ? gradient + momentum * *buffer : *buffer;
    return parameter - learning_rate * (direction + weight_decay * parameter);
  }

  T momentum;
  bool is_nesterov;
  T learning_rate = 0;
};

/// Hands the gradient on, scaled and clipped.
template <class T>
struct ScaledGradientRule {
  static constexpr std::size_t kStates = 0;

  explicit ScaledGradientRule(const Attributes& /*attributes*/) {}
  void begin(const UpdateStep& /*step*/) {}
  T operator()(T /*parameter*/, T gradient, T /*weight_decay*/, T* /*states*/) const { return gradient; }
};

template <class T>
struct RunningAverageRule {
  static constexpr std::size_t kStates = 0;

  explicit RunningAverageRule(const Attributes& attributes)
      : micro_batches(static_cast<T>(attributes.number("micro_batches"))) {}
  void begin(const UpdateStep& /*step*/) {}

  T operator()(T average, T change, T /*weight_decay*/, T* /*states*/) const {
    return average + change / micro_batches;
  }

  T micro_batches;
};

template <class T>
struct SignRule {
  static constexpr std::size_t kStates = 0;

  explicit SignRule(const Attributes& attributes) : step(static_cast<T>(attributes.number("step"))) {}
  void begin(const UpdateStep& /*step*/) {}

  T operator()(T value, T change, T /*weight_decay*/, T* /*states*/) const {
    return value + step * static_cast<T>((change > 0) - (change < 0));
  }

  T step;
};

constexpr const char* kAttributes =
    ", weight_decay, decay_elements: the first so many elements of the bucket are decayed; lr_factor): ";

}  // namespace

void register_optimizer(Registration& registration) {
  provide_update<AdamWRule>(
      registration,
      {"adamw_update",
       std::string("gradient, scale [] f64 -> values, first_moment, second_moment (attributes beta1, beta2, epsilon") +
           kAttributes + "Loshchilov, Hutter, \"Decoupled Weight Decay Regularization\", 2019.",
       {"first_moment", "second_moment"}});
  provide_update<SgdRule>(
      registration,
      {"sgd_update",
       "gradient, scale [] f64 -> values (attributes weight_decay, decay_elements: the first so many elements of the "
       "bucket are decayed; lr_factor): gradient descent.",
       {}});
  provide_update<SgdMomentumRule>(
      registration,
      {"sgd_momentum_update",
       std::string("gradient, scale [] f64 -> values, momentum (attributes momentum, nesterov") + kAttributes +
           "gradient descent with heavy-ball or Nesterov momentum (Sutskever et al., \"On the importance of "
           "initialization and momentum in deep learning\", ICML 2013).",
       {"momentum"}});
  provide_update<ScaledGradientRule>(registration,
                                     {.op = "scaled_gradient",
                                      .documentation = "gradient, scale [] f64 -> direction: the scaled gradient.",
                                      .states = {},
                                      .makes_direction = true});
  provide_update<RunningAverageRule>(
      registration, {kRunningAverageUpdate,
                     "change, scale [] f64 -> values (attributes micro_batches; is_direction: true; those of every "
                     "update): adds change / micro_batches, unless the scale is not finite.",
                     {}});
  provide_update<SignRule>(registration,
                           {kSignUpdate,
                            "change, scale [] f64 -> values (attributes step; is_direction: true; those of every "
                            "update): adds step times the sign of change, unless the scale is not finite.",
                            {}});
}

}  // namespace strata::ops
