#include "device/cuda_kernel.hpp"

#include <utility>

#include "device/runtime.hpp"

namespace strata::cuda {

KernelDefinition kernel(devices::DeviceKernel<CudaEnvironment> kernel) {
  KernelDefinition definition = devices::definition_of(std::move(kernel), "the cuda device");
  definition.runtime = runtime::kernel_runtime;
  definition.signature.reals = {DType::f32, DType::bf16, DType::f16, DType::f64};
  return definition;
}

}  // namespace strata::cuda
