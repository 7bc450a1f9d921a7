#pragma once

#include <cstdint>

namespace strata::devices {

/// The shape of an operand x[sizes...], and which of its dims a smaller operand has. Plain data, for kernels.
struct BroadcastShape {
  static constexpr int kMaxDims = 12;
  int count = 0;
  std::int64_t sizes[kMaxDims] = {};
  bool present[kMaxDims] = {};  ///< true if the smaller operand has the dim
};

}  // namespace strata::devices
