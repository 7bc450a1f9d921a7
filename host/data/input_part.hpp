#pragma once

#include <cstddef>
#include <span>

#include "strata/dtype.hpp"
#include "strata/layout.hpp"
#include "strata/tensor.hpp"

namespace strata::host {

/// Copies a rank's part of the values of one sample, or of an input that all samples share. `source`: row-major values
/// of type `from`, whole. `dims`: the rank's indices of each dimension. `destination`: row-major over `dims`, of type
/// `to`. Floating-point values may have another type there.
void copy_input_part(const std::byte* source, DType from, std::span<const IndexMap> dims, DType to,
                     std::byte* destination);

}  // namespace strata::host
