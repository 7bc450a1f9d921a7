#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

/// The dims of x that y lacks, with their sizes.
OperandDescription summed_dims(const OperandDescription& x, const OperandDescription& y) {
  OperandDescription summed{x.dtype, {}, {}};
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (find_dim(y.dims, x.dims[i]) >= 0) continue;
    summed.dims.push_back(x.dims[i]);
    summed.shape.push_back(x.shape[i]);
  }
  return summed;
}

Work prepare_reduce_sum(const OpInstance& op) {
  const OperandDescription summed = summed_dims(op.operands[0], op.results[0]);
  const Strides kept_strides = strides_along(op.operands[0], op.results[0].dims);
  const Strides summed_strides = strides_along(op.operands[0], summed.dims);
  return [summed, kept_strides, summed_strides](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    const Shape& kept = launch.op().results[0].shape;
    const std::int64_t count = element_count(kept);
    const std::int64_t terms = elements(summed);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t first = offset(i, kept, kept_strides);
      double sum = 0.0;
      for (std::int64_t j = 0; j < terms; ++j) sum += x[first + offset(j, summed.shape, summed_strides)];
      y.set(i, sum);
    }
  };
}

}  // namespace

void register_reduction(Registration& registration) {
  registration.add(kernel({"reduce_sum", "r", "r", prepare_reduce_sum}));
}

}  // namespace strata::reference
