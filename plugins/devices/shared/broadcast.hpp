#pragma once

#include <optional>
#include <string>

#include "shared/broadcast_shape.hpp"
#include "strata/device.hpp"

namespace strata::devices {

/// Why an operand with some of the dims of `whole` cannot be broadcast along it.
std::optional<std::string> unsupported_broadcast(const OperandDescription& whole, const OperandDescription& part);

/// `whole` with those of its dims marked that `part` has; neighbours that are alike are merged.
BroadcastShape broadcast_shape(const OperandDescription& whole, const OperandDescription& part);

}  // namespace strata::devices
