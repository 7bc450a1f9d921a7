#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"

namespace strata::host {

/// Compares the tensors of two checkpoints bit for bit, whatever layouts wrote them. \return the first difference, as
/// in
/// "'wte' differs in 3 of 4096 elements; element 17 is 0.25 and 0.5". Empty if there is none.
[[nodiscard]] std::optional<std::string> find_difference(const CheckpointReader& first, const CheckpointReader& second);

}  // namespace strata::host
