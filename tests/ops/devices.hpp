#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/device.hpp"
#include "strata/registration.hpp"

namespace strata::testing {

/// The factory of the device plugin `name` of this build tree. Its library stays loaded.
const DeviceFactory& device_factory(const std::string& name);

/// Registers Strata's own ops, and those of the optimizer plugins, with their kernels for any device.
void register_vocabulary(OpRegistry& ops, KernelRegistry& kernels);

/// The kernels that the device plugin `name` registers, without the reference kernels.
KernelRegistry own_kernels(const std::string& name);

/// All kernels of a run with the device plugin `name`. They live as long as the process.
const KernelRegistry& kernels_of_run(const std::string& name);

/// A device with its plugin's default options, overridden by `given`. A request without kernels gets those of a run.
std::unique_ptr<Device> make_device(const std::string& name, const std::map<std::string, OptionValue>& given = {},
                                    DeviceRequest request = {});

/// The cpu device with each instruction set of this processor, by the set's name.
std::map<std::string, std::shared_ptr<Device>> cpu_devices(std::int64_t threads);

/// Device plugins of this build tree for other hardware that work on this machine: "cuda_emulated" if it is built, and
/// "cuda" if there is a GPU.
std::vector<std::string> accelerators();

}  // namespace strata::testing
