#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/kernel.hpp"

namespace strata::devices {

/// Why a device with kernels for the functions `known` cannot compute the op's activation. Empty if it can.
std::optional<std::string> unsupported_activation_kind(const OpInstance& op, const std::vector<std::string>& known);

}  // namespace strata::devices
