#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor_part.hpp"

namespace strata::host {

/// Why `parts` do not contain every element of a tensor of `shape` exactly once; empty if they do. Blocks of different
/// parts must be equal or disjoint.
[[nodiscard]] std::optional<std::string> find_cover_fault(const Shape& shape, const std::vector<TensorPart>& parts);

}  // namespace strata::host
