#pragma once

#include <cstdint>

#include "strata/dtype.hpp"

namespace strata::host {

/// Element `index` of an array of any dtype, as f64.
[[nodiscard]] double load_element(DType dtype, const void* array, std::int64_t index);
/// Stores `value` as element `index`, rounded to the nearest number of the dtype, ties to even. Short types are rounded
/// from f32, as kernels do. Integers round towards zero.
void store_element(DType dtype, void* array, std::int64_t index, double value);

}  // namespace strata::host
