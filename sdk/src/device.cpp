#include "strata/device.hpp"

namespace strata {

Kernel::~Kernel() = default;
Event::~Event() = default;
Device::~Device() = default;
DeviceFactory::~DeviceFactory() = default;

NativeStream Device::native_stream(StreamKind /*stream*/) { return {}; }

}  // namespace strata
