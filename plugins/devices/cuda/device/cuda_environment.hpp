#pragma once

#include <memory>

#include "matrix/matrix_product.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda {

/// The environment in which the cuda device prepares kernels: its GPU and the library for matrix products.
class CudaEnvironment final : public GpuEnvironment {
 public:
  CudaEnvironment(const GpuDescription& gpu, std::unique_ptr<MatrixLibrary> matrices);

  [[nodiscard]] MatrixLibrary& matrices() const { return *matrices_; }

 private:
  std::unique_ptr<MatrixLibrary> matrices_;
};

}  // namespace strata::cuda
