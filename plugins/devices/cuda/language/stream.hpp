#pragma once

namespace strata::cuda {

/// A stream of the CUDA runtime (cudaStream_t), opaque to host code. In the emulator a stream may be null.
using Stream = void*;

}  // namespace strata::cuda
