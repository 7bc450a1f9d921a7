#include <optional>

#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

/// Weight decay by element: it applies to the first `decay_elements` of the whole bucket.
class Decay {
 public:
  explicit Decay(const OpInstance& op)
      : weight_decay_(op.attributes.number("weight_decay")),
        decay_elements_(op.attributes.integer("decay_elements")),
        map_(index_map(op, op.operands[0].dims[0])) {}

  double operator()(std::int64_t local) const {
    return map_.global_index(local) < decay_elements_ ? weight_decay_ : 0.0;
  }

 private:
  double weight_decay_;
  std::int64_t decay_elements_;
  IndexMap map_;
};

/// The results of an update: values, a "master" copy if the values have a short type, then `states` states.
class Updated {
 public:
  Updated(const Launch& launch, std::size_t states)
      : has_master_(launch.op().results.size() > states + 1),
        values_(launch.result(0)),
        master_(launch.result(has_master_ ? 1 : 0)),
        first_state_(has_master_ ? 2 : 1) {}

  [[nodiscard]] double get(std::int64_t i) const { return master_.get(i); }
  void set(std::int64_t i, double value) const {
    master_.set(i, value);
    if (has_master_) values_.set(i, master_.get(i));
  }
  /// Index of the result that is state number `index`.
  [[nodiscard]] std::size_t state(std::size_t index) const { return first_state_ + index; }

 private:
  bool has_master_;
  Writer values_;
  Writer master_;
  std::size_t first_state_;
};

Work prepare_adamw_update(const OpInstance& op) {
  const double beta1 = op.attributes.number("beta1");
  const double beta2 = op.attributes.number("beta2");
  const double epsilon = op.attributes.number("epsilon");
  const Decay decay(op);
  return [=](const Launch& launch) {
    const Reader gradient = launch.operand(0);
    const double scale = launch.operand(1)[0];
    if (!std::isfinite(scale)) return;
    const Updated parameter(launch, 2);
    const Writer first_moment = launch.result(parameter.state(0));
    const Writer second_moment = launch.result(parameter.state(1));
    const auto t = static_cast<double>(launch.context().step - launch.context().skipped_steps + 1);
    const double learning_rate = launch.context().learning_rate;
    for (std::int64_t i = 0; i < elements(launch.op().results[0]); ++i) {
      const double g = gradient[i] * scale;
      const double m = beta1 * first_moment.get(i) + (1.0 - beta1) * g;
      const double v = beta2 * second_moment.get(i) + (1.0 - beta2) * g * g;
      const double unbiased_m = m / (1.0 - std::pow(beta1, t));
      const double unbiased_v = v / (1.0 - std::pow(beta2, t));
      const double p = parameter.get(i);
      first_moment.set(i, m);
      second_moment.set(i, v);
      parameter.set(i, p - learning_rate * (unbiased_m / (std::sqrt(unbiased_v) + epsilon) + decay(i) * p));
    }
  };
}

Work prepare_sgd_update(const OpInstance& op) {
  const double momentum = op.attributes.number("momentum");
  const bool has_state = momentum > 0;
  const Decay decay(op);
  return [=](const Launch& launch) {
    const Reader gradient = launch.operand(0);
    const double scale = launch.operand(1)[0];
    if (!std::isfinite(scale)) return;
    const Updated parameter(launch, has_state ? 1 : 0);
    const std::optional<Writer> state = has_state ? std::optional(launch.result(parameter.state(0))) : std::nullopt;
    for (std::int64_t i = 0; i < elements(launch.op().results[0]); ++i) {
      const double b = (state ? momentum * state->get(i) : 0.0) + gradient[i] * scale;
      const double p = parameter.get(i);
      if (state) state->set(i, b);
      parameter.set(i, p - launch.context().learning_rate * (b + decay(i) * p));
    }
  };
}

}  // namespace

void register_optimizer(Registration& registration) {
  registration.add(kernel({"adamw_update", "rd", "rrr*", prepare_adamw_update, false}));
  registration.add(kernel({"sgd_update", "rd", "r*", prepare_sgd_update, false}));
}

}  // namespace strata::reference
