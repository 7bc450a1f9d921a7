#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/dtype.hpp"

namespace strata::host {

/// Element `index` of an array of any dtype, as f64.
[[nodiscard]] double load_element(DType dtype, const void* array, std::int64_t index);
/// Stores `value` as element `index`, rounded to the nearest number of the dtype, ties to even. Short types are rounded
/// from f32, as kernels do. Integers round towards zero.
void store_element(DType dtype, void* array, std::int64_t index, double value);

/// All elements of an array of `dtype`.
[[nodiscard]] std::vector<double> load_elements(DType dtype, std::span<const std::byte> array);
/// An array of `dtype` with these elements.
[[nodiscard]] std::vector<std::byte> store_elements(DType dtype, std::span<const double> values);

}  // namespace strata::host
