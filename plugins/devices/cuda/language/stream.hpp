#pragma once

namespace strata::cuda {

/// A stream of the CUDA runtime (cudaStream_t), opaque to host code. The emulator has none: null.
using Stream = void*;

}  // namespace strata::cuda
