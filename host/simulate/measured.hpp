#pragma once

#include <optional>
#include <string>

#include "cluster/cluster.hpp"
#include "simulate/kernel_work.hpp"

namespace strata::host {

/// Time of a kernel from the measured points of the device. Empty if it has none for the op and type. Products and
/// attention take the points of the nearest shapes, and interpolate between less and more work, both as logarithms.
/// `busy`: ranks that share the device. Points of as many count, else those of the nearest number, in proportion.
[[nodiscard]] std::optional<double> measured_kernel(const DeviceDescription& device, const KernelWork& work, int busy);

/// Time of a collective within a node among `ranks` ranks. Empty if there is no point of that kind and group size.
[[nodiscard]] std::optional<double> measured_collective(const DeviceDescription& device, const std::string& kind,
                                                        double bytes, int ranks);

}  // namespace strata::host
