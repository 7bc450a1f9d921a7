#include "strata/device.hpp"

namespace strata {

Kernel::~Kernel() = default;
Event::~Event() = default;
Device::~Device() = default;
DeviceFactory::~DeviceFactory() = default;

}  // namespace strata
