#pragma once

#include "strata/registration.hpp"

namespace drawn {

/// The op of the drawn models: x -> x / (1 + x · x), element by element. No other plugin knows it.
inline constexpr const char* kFolded = "folded";

/// Registers the op, its gradient and their reference kernels.
void register_folded(strata::Registration& registration);

}  // namespace drawn
