#pragma once

#include <optional>
#include <string>

#include "shared/broadcast_shape.hpp"
#include "strata/device.hpp"

namespace strata::devices {

/// Why `part` cannot be broadcast to `whole`. Empty if its dims are among those of `whole`.
std::optional<std::string> unsupported_broadcast(const OperandDescription& whole, const OperandDescription& part);

/// The shape of `whole`, with those of its dims marked that `part` has. Neighbouring dims of the same kind are merged.
BroadcastShape broadcast_shape(const OperandDescription& whole, const OperandDescription& part);

/// An operand without its last dim, for what is the same for all elements of a row.
inline OperandDescription rows_of(OperandDescription x) {
  x.dims.pop_back();
  x.shape.pop_back();
  return x;
}

}  // namespace strata::devices
