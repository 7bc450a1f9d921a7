#pragma once

#include <vector>

#include "calibration/kernel_points.hpp"
#include "cluster/cluster.hpp"

namespace strata::host {

/// Copies within the devices of `world`, all of them at once, by size.
[[nodiscard]] std::vector<MeasuredPoint> time_copies(const CalibratedMachine& machine, World& world);

/// Rate of copies between host memory and a device with a memory of its own; 0 if it has none.
[[nodiscard]] double host_copy_rate(Device& device);

/// Collectives of all ranks of `world` at once, in groups of `size`, by kind, type and bytes. The bytes are those of
/// the whole tensor: of the larger side.
[[nodiscard]] std::vector<MeasuredPoint> time_collectives(const CalibratedMachine& machine, World& world, int size);

/// The link between the first two ranks of `world`, from its smallest and a large message.
[[nodiscard]] LinkLevel time_messages(const CalibratedMachine& machine, World& world);

}  // namespace strata::host
