#pragma once

#include <optional>
#include <string>

#include "device/cuda_kernel.hpp"

namespace strata::cuda {

// Why a product is not supported, if it is not. Ops that include a product use both functions too.
std::optional<std::string> unsupported_linear(const OpInstance& op);
std::optional<std::string> unsupported_linear_bias(const OpInstance& op);
/// Prepares a product. A third operand is a bias.
PreparedKernel prepare_linear(const OpInstance& op, const CudaEnvironment& environment);

}  // namespace strata::cuda
