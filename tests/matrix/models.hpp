#pragma once

#include <vector>

#include "matrix/grammar.hpp"

namespace strata::testing {

/// The models of generated stacks, each together with its options.
[[nodiscard]] std::vector<OptionChoice> models();
/// Sizes that suit many products of ranks.
[[nodiscard]] std::vector<ModelSizes> model_sizes();

}  // namespace strata::testing
