#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/device.hpp"

namespace strata::testing {

/// The factory of the device plugin `name` of this build tree; its library stays loaded.
const DeviceFactory& device_factory(const std::string& name);

/// A device with its plugin's default options, overridden by `given`.
std::unique_ptr<Device> make_device(const std::string& name, const std::map<std::string, OptionValue>& given = {});

/// The cpu device with each set of instructions that this processor has, by the set's name.
std::map<std::string, std::shared_ptr<Device>> cpu_devices(std::int64_t threads);

/// Device plugins of this build tree that are for other hardware and work here: "cuda_emulated" where it is built,
/// "cuda" where there is a GPU too.
std::vector<std::string> accelerators();

}  // namespace strata::testing
