#pragma once

#include <memory>

#include "matrix/matrix_product.hpp"
#include "shared/device_kernel.hpp"
#include "strata/gpu_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::cuda {

/// The environment in which the cuda device prepares kernels: its GPU and the library for matrix products.
class CudaEnvironment final : public GpuEnvironment {
 public:
  CudaEnvironment(const GpuDescription& gpu, std::unique_ptr<MatrixLibrary> matrices);

  [[nodiscard]] MatrixLibrary& matrices() const { return *matrices_; }

 private:
  std::unique_ptr<MatrixLibrary> matrices_;
};

/// Converts a kernel into the definition that is registered. Its real types are f32, bf16, f16 and f64. Its index type
/// is i32.
KernelDefinition kernel(devices::DeviceKernel<CudaEnvironment> kernel);

}  // namespace strata::cuda
