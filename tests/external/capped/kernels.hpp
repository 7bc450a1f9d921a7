#pragma once

#include <string>

#include "strata/registration.hpp"

namespace capped {

/// Registers the reference kernels of the op and its gradient, and kernels in f32.
void register_kernels(strata::Registration& registration, const std::string& forward, const std::string& gradient);

}  // namespace capped
