#pragma once

#include "device/cuda_kernel.hpp"
#include "language/launch.hpp"

namespace strata::cuda {

/// A kernel whose launch is one launch of `kernel` with the arguments: operands and results of the launch, and values.
template <class... Parameters, class... Arguments>
PreparedKernel call(void (*kernel)(Parameters...), const Geometry& geometry, const Arguments&... arguments) {
  return {[=](const KernelArguments& given) { launch(kernel, geometry, given.stream, argument(arguments, given)...); }};
}

}  // namespace strata::cuda
