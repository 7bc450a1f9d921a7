#pragma once

#include <cstdint>

#include "kernels/element.hpp"
#include "kernels/kernel_family.hpp"
#include "shared/broadcast_shape.hpp"

namespace strata::cpu {

/// The rotary angles of the rows of x[rows, 2 * pairs].
struct RotaryAngles {
  /// The dims of rows, and which of them positions have.
  devices::BroadcastShape rows;
  const std::int32_t* positions = nullptr;
  /// cos[table_rows, pairs] and sin[table_rows, pairs]. A row with a position outside of the table is copied.
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t table_rows = 0;
  std::int64_t pairs = 0;
  /// 1, or -1 for the opposite angles.
  float direction = 1;
};

template <class T>
struct RopeKernels {
  /// For every row and every i < pairs, rotates (x[i], x[i + pairs]). y may be x. With `accumulate`, y += the result;
  /// then y is not x.
  void (*rotate)(std::int64_t rows, const RotaryAngles& angles, const T* x, T* y, bool accumulate, int threads);
};

STRATA_CPU_KERNEL_FAMILY(ByElement<RopeKernels>, rope_kernels);

}  // namespace strata::cpu
