#pragma once

#include <cstdint>

#include "matrix/stack.hpp"

namespace strata::testing {

/// Stack `number` of the grammar. Equal numbers give equal stacks. The world has 1 to 16 ranks. Strategies are in any
/// order. Most models have sizes that the axes divide.
[[nodiscard]] Stack random_stack(std::uint64_t number);

}  // namespace strata::testing
