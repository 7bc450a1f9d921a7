#pragma once

#include "strata/registration.hpp"

namespace shifted {

/// Registers the op "neighbour" with its kernels: x [batch seq embed] -> y of the same dimensions. y[t] = x[t -
/// offset], and zero where there is no such token. The attribute "offset" is 1 or -1.
void register_neighbour(strata::Registration& registration);

}  // namespace shifted
