#pragma once

#include "cluster/cluster.hpp"
#include "simulate/kernel_work.hpp"

namespace strata::host {

/// Time of a kernel on a device, without the gap before the next one. Points that were measured on the device count
/// first. Otherwise:
/// - a product runs in tiles and whole waves of them, each with a fill and an epilogue, and not faster than its memory
///   traffic;
/// - attention runs at its share of the peak, or as two products with the scores in memory between them;
/// - other ops take the longer of their arithmetic and their memory traffic.
/// `sharing`: busy ranks that share the device's rates, as those of a CPU share cores and memory.
/// \throws ConfigurationError if the description lacks the peak rate or the memory bandwidth.
[[nodiscard]] double kernel_seconds(const DeviceDescription& device, const KernelWork& work, int sharing = 1);

/// Peak rate of products of a type: that of f32 if the description has none of its own. \throws ConfigurationError if
/// it has neither.
[[nodiscard]] double peak_flops(const DeviceDescription& device, DType dtype);

}  // namespace strata::host
