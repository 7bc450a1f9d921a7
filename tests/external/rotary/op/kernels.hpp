#pragma once

#include "strata/kernel.hpp"

namespace rotary {

/// The sizes of a rank's part.
struct Sizes {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t heads = 0;
  std::int64_t pairs = 0;
};

inline Sizes sizes_of(const strata::OpInstance& op) {
  const strata::Shape& x = op.operands[0].shape;
  return {x[0], x[1], x[2], op.operands[1].shape[1]};
}

/// The definition, as plain code in f64.
[[nodiscard]] strata::KernelDefinition reference_kernel();
/// For devices on host memory: f32, bf16 and f16 elements with f32 tables, on all of the device's threads.
[[nodiscard]] strata::KernelDefinition host_kernel();

}  // namespace rotary
