#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor_part.hpp"

namespace strata::host {

/// What keeps `parts` from having every element of a tensor of `shape` once; none if they do. Blocks of different parts
/// must be equal or have nothing in common.
[[nodiscard]] std::optional<std::string> find_cover_fault(const Shape& shape, const std::vector<TensorPart>& parts);

}  // namespace strata::host
