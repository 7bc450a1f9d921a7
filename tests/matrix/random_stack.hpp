#pragma once

#include <cstdint>

#include "matrix/stack.hpp"

namespace strata::testing {

/// Stack `number` of the grammar: always the same one. Its world has 1 to 16 ranks, its strategies stand in any order,
/// and most of its models have sizes that its axes divide.
[[nodiscard]] Stack random_stack(std::uint64_t number);

}  // namespace strata::testing
