#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "strata/export.hpp"

namespace strata {

/// Element types of tensors. `bf16` is the upper half of an IEEE binary32. `f16` is an IEEE binary16. `i8` holds
/// quantised values in transit and is never reduced.
enum class DType : std::uint8_t { f64, f32, bf16, f16, i32, i64, i8 };

/// Bytes of one element.
STRATA_API std::size_t size_of(DType dtype);
/// The type's name, such as "f32".
STRATA_API std::string_view to_string(DType dtype);
/// The type named `name`, the inverse of to_string(). \throws ConfigurationError that lists the accepted names.
STRATA_API DType dtype_from_string(std::string_view name);
/// True for f64, f32, bf16 and f16.
STRATA_API bool is_floating_point(DType dtype);

}  // namespace strata
