#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

Work prepare_layer_norm(const OpInstance& op) {
  const double epsilon = op.attributes.number("epsilon");
  return [epsilon](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader gain = launch.operand(1);
    const Reader bias = launch.operand(2);
    const Writer y = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      const std::int64_t first = row * width;
      double sum = 0.0;
      for (std::int64_t j = 0; j < width; ++j) sum += x[first + j];
      const double mean = sum / static_cast<double>(width);
      double squares = 0.0;
      for (std::int64_t j = 0; j < width; ++j) squares += (x[first + j] - mean) * (x[first + j] - mean);
      const double inverse_std = 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
      for (std::int64_t j = 0; j < width; ++j) {
        y.set(first + j, (x[first + j] - mean) * inverse_std * gain[j] + bias[j]);
      }
      launch.result(1).set(row, mean);
      launch.result(2).set(row, inverse_std);
    }
  };
}

/// With x̂ = (x - mean) · inverse_std and g = dy · gain: dx = inverse_std · (g - average(g) - x̂ · average(g · x̂)).
Work prepare_layer_norm_input_gradient(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    const Reader gain = launch.operand(2);
    const Reader mean = launch.operand(3);
    const Reader inverse_std = launch.operand(4);
    const Writer dx = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      const std::int64_t first = row * width;
      const auto normalized = [&](std::int64_t j) { return (x[first + j] - mean[row]) * inverse_std[row]; };
      double sum = 0.0;
      double product_sum = 0.0;
      for (std::int64_t j = 0; j < width; ++j) {
        sum += dy[first + j] * gain[j];
        product_sum += dy[first + j] * gain[j] * normalized(j);
      }
      const double average = sum / static_cast<double>(width);
      const double product_average = product_sum / static_cast<double>(width);
      for (std::int64_t j = 0; j < width; ++j) {
        dx.set(first + j, inverse_std[row] * (dy[first + j] * gain[j] - average - normalized(j) * product_average));
      }
    }
  };
}

Work prepare_layer_norm_parameter_gradient(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    const Reader mean = launch.operand(2);
    const Reader inverse_std = launch.operand(3);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t j = 0; j < width; ++j) {
      double gain_sum = 0.0;
      double bias_sum = 0.0;
      for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
        const std::int64_t i = row * width + j;
        gain_sum += dy[i] * (x[i] - mean[row]) * inverse_std[row];
        bias_sum += dy[i];
      }
      launch.result(0).set(j, gain_sum);
      launch.result(1).set(j, bias_sum);
    }
  };
}

}  // namespace

void register_layer_norm(Registration& registration) {
  registration.add(kernel({"layer_norm", "rrr", "rrr", prepare_layer_norm, false}));
  registration.add(kernel({"layer_norm_input_gradient", "rrrrr", "r", prepare_layer_norm_input_gradient}));
  registration.add(kernel({"layer_norm_parameter_gradient", "rrrr", "rr", prepare_layer_norm_parameter_gradient}));
}

}  // namespace strata::reference
