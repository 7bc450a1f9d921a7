#pragma once

#include "device/cuda_environment.hpp"
#include "shared/device_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::cuda {

/// Converts a kernel into the definition that is registered. Its real types are f32, bf16, f16 and f64. Its index type
/// is i32.
KernelDefinition kernel(devices::DeviceKernel<CudaEnvironment> kernel);

}  // namespace strata::cuda
