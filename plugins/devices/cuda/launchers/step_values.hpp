#pragma once

#include "language/stream.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda {

/// Enqueues a store of `values` to device memory at `to`, where later kernels of the stream read them.
void launch_store_step_values(Stream stream, const StepValues& values, StepValues* to);

}  // namespace strata::cuda
