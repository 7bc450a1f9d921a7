#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

Work prepare_rms_norm(const OpInstance& op) {
  const double epsilon = op.attributes.number("epsilon");
  return [epsilon](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader gain = launch.operand(1);
    const Writer y = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      const std::int64_t first = row * width;
      double squares = 0.0;
      for (std::int64_t j = 0; j < width; ++j) squares += x[first + j] * x[first + j];
      const double inverse_rms = 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
      for (std::int64_t j = 0; j < width; ++j) y.set(first + j, x[first + j] * inverse_rms * gain[j]);
      launch.result(1).set(row, inverse_rms);
    }
  };
}

/// With x̂ = x · inverse_rms and g = dy · gain: dx = inverse_rms · (g - x̂ · average(g · x̂)).
Work prepare_rms_norm_input_gradient(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    const Reader gain = launch.operand(2);
    const Reader inverse_rms = launch.operand(3);
    const Writer dx = launch.result(0);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
      const std::int64_t first = row * width;
      const double scale = inverse_rms[row];
      double sum = 0.0;
      for (std::int64_t j = 0; j < width; ++j) sum += dy[first + j] * gain[j] * x[first + j] * scale;
      const double average = sum / static_cast<double>(width);
      for (std::int64_t j = 0; j < width; ++j) {
        dx.set(first + j, scale * (dy[first + j] * gain[j] - x[first + j] * scale * average));
      }
    }
  };
}

Work prepare_rms_norm_parameter_gradient(const OpInstance& /*op*/) {
  return [](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    const Reader inverse_rms = launch.operand(2);
    const std::int64_t width = columns(launch.op().operands[0]);
    for (std::int64_t j = 0; j < width; ++j) {
      double sum = 0.0;
      for (std::int64_t row = 0; row < rows(launch.op().operands[0]); ++row) {
        sum += dy[row * width + j] * x[row * width + j] * inverse_rms[row];
      }
      launch.result(0).set(j, sum);
    }
  };
}

}  // namespace

void register_rms_norm(Registration& registration) {
  registration.add(kernel({"rms_norm", "rr", "rr", prepare_rms_norm, false}));
  registration.add(kernel({"rms_norm_input_gradient", "rrrr", "r", prepare_rms_norm_input_gradient}));
  registration.add(kernel({"rms_norm_parameter_gradient", "rrr", "r", prepare_rms_norm_parameter_gradient}));
}

}  // namespace strata::reference
