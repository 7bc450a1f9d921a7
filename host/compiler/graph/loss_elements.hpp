#pragma once

#include <cstdint>

#include "strata/graph.hpp"

namespace strata::host {

/// Number of elements whose losses a micro-batch sums if none is left out, such as batch · seq for the tokens of a
/// language model: the elements of the integers from which the graph computes its count.
[[nodiscard]] std::int64_t loss_elements(const Graph& graph);

}  // namespace strata::host
