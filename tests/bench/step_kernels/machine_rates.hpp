#pragma once

#include <cstdint>
#include <vector>

#include "step_kernels/kernel_timer.hpp"

namespace strata::bench {

/// What a device was measured to do at best: the roofline.
struct MachineRates {
  double bytes_per_second = 0;
  double flops_per_second = 0;

  /// The shortest time in which the device could do what the kernel has to.
  [[nodiscard]] double floor_seconds(const StepKernel& kernel) const;
  /// Whether memory, and not arithmetic, sets that time.
  [[nodiscard]] bool is_bound_by_memory(const StepKernel& kernel) const;
};

/// A copy of `copy_bytes` within the device, read and written, and square matrix products in `dtype` of each of
/// `sizes`, of which the fastest counts.
[[nodiscard]] MachineRates measure_machine(KernelTimer& timer, const OpRegistry& registry, DType dtype,
                                           const std::vector<std::int64_t>& sizes, std::int64_t copy_bytes);

}  // namespace strata::bench
