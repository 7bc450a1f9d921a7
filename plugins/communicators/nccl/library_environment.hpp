#pragma once

namespace strata::nccl {

/// Sets environment variables that NCCL and CUDA read when they start, unless they are set. Must be called while the
/// process has one thread, and before either library starts.
void set_library_environment();

}  // namespace strata::nccl
