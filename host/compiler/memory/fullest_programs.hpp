#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// Of alike classes, those that need most memory: the first with most micro-batches in flight, and the first with most
/// that wait for the gradients of weights.
[[nodiscard]] std::set<std::size_t> find_fullest(const std::vector<std::size_t>& classes,
                                                 const std::vector<Program>& programs);

}  // namespace strata::host
