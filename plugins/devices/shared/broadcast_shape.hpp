#pragma once

#include <cstdint>

namespace strata::devices {

/// The shape of an operand x[sizes...] beside another one that has only some of its dims. Plain data: kernels take it.
struct BroadcastShape {
  static constexpr int kMaxDims = 12;
  int count = 0;
  std::int64_t sizes[kMaxDims] = {};
  bool present[kMaxDims] = {};  ///< whether the smaller operand has the dim
};

}  // namespace strata::devices
