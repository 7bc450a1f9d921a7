#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

Work prepare_rope(const OpInstance& op) {
  const double direction = op.attributes.flag("inverse") ? -1 : 1;
  Dims row_dims = op.operands[0].dims;
  Shape row_shape = op.operands[0].shape;
  row_dims.pop_back();
  row_shape.pop_back();
  return [=, strides = strides_along(op.operands[3], row_dims)](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader cos = launch.operand(1);
    const Reader sin = launch.operand(2);
    const Reader positions = launch.operand(3);
    const Writer y = launch.result(0);
    const std::int64_t pairs = columns(launch.op().operands[1]);
    for (std::int64_t row = 0; row < element_count(row_shape); ++row) {
      const auto position = static_cast<std::int64_t>(positions[offset(row, row_shape, strides)]);
      const bool turns = position >= 0 && position < rows(launch.op().operands[1]);
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const std::int64_t first = row * 2 * pairs + pair;
        const std::int64_t second = first + pairs;
        const double c = turns ? cos[position * pairs + pair] : 1;
        const double s = turns ? direction * sin[position * pairs + pair] : 0;
        // y may alias x, so read both before writing.
        const double a = x[first];
        const double b = x[second];
        y.set(first, a * c - b * s);
        y.set(second, a * s + b * c);
      }
    }
  };
}

}  // namespace

void register_rope(Registration& registration) { registration.add(kernel({"rope", "rffi", "r", prepare_rope})); }

}  // namespace strata::reference
