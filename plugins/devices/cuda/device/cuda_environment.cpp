#include "device/cuda_environment.hpp"

#include <string>
#include <utility>

#include "device/runtime.hpp"

namespace strata::cuda {

CudaEnvironment::CudaEnvironment(const GpuDescription& gpu, std::unique_ptr<MatrixLibrary> matrices)
    : GpuEnvironment(gpu, std::string(runtime::kernel_runtime)), matrices_(std::move(matrices)) {}

}  // namespace strata::cuda
