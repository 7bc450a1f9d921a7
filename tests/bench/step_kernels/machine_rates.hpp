#pragma once

#include <cstdint>
#include <vector>

#include "step_kernels/kernel_timer.hpp"

namespace strata::bench {

/// The best measured rates of a device: its roofline.
struct MachineRates {
  double bytes_per_second = 0;
  double flops_per_second = 0;

  /// The shortest time in which the device could execute the kernel.
  [[nodiscard]] double floor_seconds(const StepKernel& kernel) const;
  /// True if memory, not arithmetic, determines that time.
  [[nodiscard]] bool is_bound_by_memory(const StepKernel& kernel) const;
};

/// Measures a copy of `copy_bytes` bytes within the device, counted as read and written, and square matrix products in
/// `dtype` of each of `sizes`, of which the fastest counts.
[[nodiscard]] MachineRates measure_machine(KernelTimer& timer, const OpRegistry& registry, DType dtype,
                                           const std::vector<std::int64_t>& sizes, std::int64_t copy_bytes);

}  // namespace strata::bench
