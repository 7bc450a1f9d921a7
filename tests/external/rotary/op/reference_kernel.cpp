#include "strata/reference_kernel.hpp"

#include "op/kernels.hpp"

namespace rotary {
namespace {

using namespace strata::reference;

Work prepare(const strata::OpInstance& op) {
  const Sizes size = sizes_of(op);
  const double direction = op.attributes.flag("inverse") ? -1 : 1;
  return [=](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader cos = launch.operand(1);
    const Reader sin = launch.operand(2);
    const Writer y = launch.result(0);
    for (std::int64_t row = 0; row < size.batch * size.seq * size.heads; ++row) {
      const std::int64_t position = row / size.heads % size.seq;
      for (std::int64_t pair = 0; pair < size.pairs; ++pair) {
        const std::int64_t first = row * 2 * size.pairs + pair;
        const std::int64_t second = first + size.pairs;
        const double c = cos[position * size.pairs + pair];
        const double s = direction * sin[position * size.pairs + pair];
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

strata::KernelDefinition reference_kernel() { return kernel({"rotary", "rrr", "r", prepare}); }

}  // namespace rotary
