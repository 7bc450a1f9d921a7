#pragma once

#include "strata/device.hpp"

namespace strata::host {

/// The rate of the device's matrix products in FLOP/s: the fastest of square products of several sizes, each timed a
/// few times. Takes less than a second, and up to 1 GiB of the device's memory for that time. 0 if the device has no
/// kernel for them.
[[nodiscard]] double measure_product_rate(Device& device, DType type);

}  // namespace strata::host
