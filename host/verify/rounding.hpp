#pragma once

#include "strata/dtype.hpp"

namespace strata::host {

/// Largest relative error of one rounding to the type: half a unit in the last place. 0 for integers.
[[nodiscard]] constexpr double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

}  // namespace strata::host
