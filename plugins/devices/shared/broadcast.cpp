#include "shared/broadcast.hpp"

namespace strata::devices {

std::optional<std::string> unsupported_broadcast(const OperandDescription& whole, const OperandDescription& part) {
  std::size_t at = 0;
  for (const Dim& dim : whole.dims) {
    if (at < part.dims.size() && part.dims[at] == dim) ++at;
  }
  if (at != part.dims.size()) {
    return "[" + join(part.dims) + "] is no ordered subset of [" + join(whole.dims) + "]";
  }
  if (broadcast_shape(whole, part).count < 0) return "[" + join(whole.dims) + "] has too many dims";
  return std::nullopt;
}

BroadcastShape broadcast_shape(const OperandDescription& whole, const OperandDescription& part) {
  BroadcastShape shape;
  for (std::size_t i = 0; i < whole.dims.size(); ++i) {
    const bool present = contains(part.dims, whole.dims[i]);
    if (shape.count > 0 && shape.present[shape.count - 1] == present) {
      shape.sizes[shape.count - 1] *= whole.shape[i];
      continue;
    }
    if (shape.count == BroadcastShape::kMaxDims) {
      shape.count = -1;
      return shape;
    }
    shape.sizes[shape.count] = whole.shape[i];
    shape.present[shape.count] = present;
    ++shape.count;
  }
  if (shape.count == 0) {  // a scalar
    shape.sizes[0] = 1;
    shape.present[0] = true;
    shape.count = 1;
  }
  return shape;
}

}  // namespace strata::devices
