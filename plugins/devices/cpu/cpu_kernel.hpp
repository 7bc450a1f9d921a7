#pragma once

#include "cpu_environment.hpp"
#include "shared/device_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::cpu {

/// The definition of a kernel of this device. Real types are f32, bf16 and f16. The index type is i32.
KernelDefinition kernel(devices::DeviceKernel<CpuEnvironment> kernel);

}  // namespace strata::cpu
