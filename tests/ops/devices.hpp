#pragma once

#include <memory>
#include <string>

#include "strata/device.hpp"

namespace strata::testing {

/// The factory of the device plugin `name` of this build tree; its library stays loaded.
const DeviceFactory& device_factory(const std::string& name);

/// A device with its plugin's default options, overridden by `given`.
std::unique_ptr<Device> make_device(const std::string& name, const std::map<std::string, OptionValue>& given = {});

}  // namespace strata::testing
