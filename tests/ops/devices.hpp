#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/device.hpp"

namespace strata::testing {

/// The factory of the device plugin `name` of this build tree; its library stays loaded.
const DeviceFactory& device_factory(const std::string& name);

/// A device with its plugin's default options, overridden by `given`.
std::unique_ptr<Device> make_device(const std::string& name, const std::map<std::string, OptionValue>& given = {});

/// Device plugins of this build tree that are for other hardware and work here: "cuda_emulated" where it is built,
/// "cuda" where there is a GPU too.
std::vector<std::string> accelerators();

}  // namespace strata::testing
