#pragma once

#include "strata/device.hpp"
#include "strata/error.hpp"

namespace strata::reference {

/// Elements between neighbours along each dim of a loop; 0 where an operand lacks the dim.
using Strides = std::vector<std::int64_t>;

/// Strides of a contiguous `operand` along `dims`.
inline Strides strides_along(const OperandDescription& operand, const Dims& dims) {
  Strides strides(dims.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = operand.dims.size(); i-- > 0;) {
    const int position = find_dim(dims, operand.dims[i]);
    if (position >= 0) strides[static_cast<std::size_t>(position)] = stride;
    stride *= operand.shape[i];
  }
  return strides;
}

/// Where the `flat`-th point (row-major) of a loop over `shape` lies in an operand with `strides`.
inline std::int64_t offset(std::int64_t flat, const Shape& shape, const Strides& strides) {
  std::int64_t result = 0;
  for (std::size_t i = shape.size(); i-- > 0;) {
    result += flat % shape[i] * strides[i];
    flat /= shape[i];
  }
  return result;
}

}  // namespace strata::reference
