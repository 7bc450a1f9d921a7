#pragma once

#include "device/cuda_kernel.hpp"

namespace strata::cuda {

// The kernel of an activation. Ops that include an activation use it too.
PreparedKernel prepare_activation(const OpInstance& op, const CudaEnvironment& environment);
PreparedKernel prepare_activation_gradient(const OpInstance& op, const CudaEnvironment& environment);

}  // namespace strata::cuda
