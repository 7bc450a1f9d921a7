#pragma once

#include <cstdint>

#include "strata/dtype.hpp"

namespace strata::host {

/// Element `index` of an array of any dtype, as f64.
[[nodiscard]] double load_element(DType dtype, const void* array, std::int64_t index);
/// Stores `value`, rounded to the nearest number that the dtype has (ties to even; integers towards zero).
void store_element(DType dtype, void* array, std::int64_t index, double value);

}  // namespace strata::host
