#pragma once

#include <memory>

#include "strata/model.hpp"

namespace strata::testing {

/// A small transformer with a random shape. Choices: tied or own head, edges that skip blocks, weights shared by
/// layers, a second loss, grouped queries, other activations, biases or none, dropout, positions that are trained,
/// frozen or constant, and frozen matrices.
[[nodiscard]] std::shared_ptr<const Model> random_model(std::uint64_t seed);

}  // namespace strata::testing
