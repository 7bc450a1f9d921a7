#include <numbers>

#include "kernel_table.hpp"
#include "ops/activation.hpp"
#include "strata/error.hpp"
#include "strided.hpp"

namespace strata::reference {
namespace {

/// y[i] = function(x[i])
LaunchFunction map_elements(std::int64_t count, double (*function)(double)) {
  return [count, function](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, function(x[i]));
  };
}

double identity(double x) { return x; }

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// The tanh approximation of GELU: x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).
constexpr double kCubic = 0.044715;
const double kGeluScale = std::sqrt(2.0 / std::numbers::pi);

double gelu_tanh(double x) { return 0.5 * x * (1.0 + std::tanh(kGeluScale * (x + kCubic * x * x * x))); }

double gelu_tanh_derivative(double x) {
  const double t = std::tanh(kGeluScale * (x + kCubic * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kGeluScale * (1.0 + 3.0 * kCubic * x * x);
}

double relu(double x) { return x > 0.0 ? x : 0.0; }
double relu_derivative(double x) { return x > 0.0 ? 1.0 : 0.0; }

double silu(double x) { return x * logistic(x); }
double silu_derivative(double x) {
  const double s = logistic(x);
  return s * (1.0 + x * (1.0 - s));
}

}  // namespace

ActivationFunction activation_function(const OpInstance& op) {
  const std::string& kind = op.attributes.word("kind");
  if (kind == "gelu_tanh") return {gelu_tanh, gelu_tanh_derivative};
  if (kind == "relu") return {relu, relu_derivative};
  if (kind == "silu") return {silu, silu_derivative};
  throw ConfigurationError("activation '" + op.name + "': unknown kind '" + kind + "'");
}

LaunchFunction prepare_add(const OpInstance& op) {
  const Strides y_strides = strides_along(op.operands[1], op.operands[0].dims);
  return [y_strides](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader y = launch.operand(1);
    const Writer z = launch.result(0);
    const Shape& shape = launch.op().operands[0].shape;
    const std::int64_t count = element_count(shape);
    for (std::int64_t i = 0; i < count; ++i) z.set(i, x[i] + y[offset(i, shape, y_strides)]);
  };
}

LaunchFunction prepare_sum(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0.0;
      for (std::size_t operand = 0; operand < launch.op().operands.size(); ++operand) sum += launch.operand(operand)[i];
      y.set(i, sum);
    }
  };
}

LaunchFunction prepare_cast(const OpInstance& op) { return map_elements(elements(op.results[0]), identity); }

LaunchFunction prepare_scale_gradient(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, x[i] * launch.context().loss_scale);
  };
}

LaunchFunction prepare_fill_zero(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, 0.0);
  };
}

LaunchFunction prepare_accumulate(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, y.get(i) + x[i]);
  };
}

LaunchFunction prepare_activation(const OpInstance& op) {
  return map_elements(elements(op.results[0]), activation_function(op).value);
}

LaunchFunction prepare_activation_gradient(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count, derivative = activation_function(op).derivative](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    const Writer dx = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) dx.set(i, dy[i] * derivative(x[i]));
  };
}

}  // namespace strata::reference
