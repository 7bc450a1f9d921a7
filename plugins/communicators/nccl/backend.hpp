#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu_runtime.hpp"
#include "nccl_library.hpp"

namespace strata::nccl {

/// The libraries that the communicator uses.
struct Backend {
  std::shared_ptr<NcclLibrary> nccl;
  std::shared_ptr<GpuRuntime> gpu;
  /// The runtime of the device's streams, such as "cuda".
  std::string runtime;
};

/// Loads the libraries when the first rank connects, because compiling needs none. \throws ConfigurationError if a
/// library is missing.
using LoadBackend = std::function<Backend()>;

}  // namespace strata::nccl
