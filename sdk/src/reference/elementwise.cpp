#include <cmath>

#include "strata/error.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

/// y[i] = function(x[i])
Work map_elements(std::int64_t count, double (*function)(double)) {
  return [count, function](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, function(x[i]));
  };
}

double identity(double x) { return x; }

Work prepare_add(const OpInstance& op) {
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

Work prepare_sum(const OpInstance& op) {
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

Work prepare_cast(const OpInstance& op) { return map_elements(elements(op.results[0]), identity); }

Work prepare_scale_gradient(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, x[i] * launch.context().loss_scale);
  };
}

Work prepare_normalize(const OpInstance& op) {
  const Strides strides = strides_along(op.operands[1], op.operands[0].dims);
  const double epsilon = op.attributes.number("epsilon");
  return [strides, epsilon](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader squares = launch.operand(1);
    const Writer y = launch.result(0);
    const Shape& shape = launch.op().operands[0].shape;
    const std::int64_t count = element_count(shape);
    for (std::int64_t i = 0; i < count; ++i) {
      y.set(i, x[i] / (std::sqrt(squares[offset(i, shape, strides)]) + epsilon));
    }
  };
}

}  // namespace

void register_elementwise(Registration& registration) {
  registration.add(kernel({"add", "rr", "r", prepare_add}));
  registration.add(kernel({"sum", "r*", "r", prepare_sum}));
  registration.add(kernel({"cast", "r", "r", prepare_cast}));
  registration.add(kernel({"scale_gradient", "r", "r", prepare_scale_gradient}));
  registration.add(kernel({"normalize", "rs", "r", prepare_normalize}));
}

}  // namespace strata::reference
