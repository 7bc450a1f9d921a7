#include "device/cuda_kernel.hpp"

#include <string>
#include <utility>

#include "device/runtime.hpp"

namespace strata::cuda {

CudaEnvironment::CudaEnvironment(const GpuDescription& gpu, std::unique_ptr<MatrixLibrary> matrices)
    : GpuEnvironment(gpu, std::string(runtime::kernel_runtime)), matrices_(std::move(matrices)) {}

KernelDefinition kernel(devices::DeviceKernel<CudaEnvironment> kernel) {
  KernelDefinition definition = devices::definition_of(std::move(kernel), "the cuda device");
  definition.runtime = runtime::kernel_runtime;
  definition.signature.reals = {DType::f32, DType::bf16, DType::f16, DType::f64};
  return definition;
}

}  // namespace strata::cuda
