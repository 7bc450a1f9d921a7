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
};

/// How the libraries are loaded when the first rank connects. Compiling needs none.
struct BackendLoader {
  /// The runtime of the device's streams, such as "cuda".
  std::string runtime;
  /// \throws ConfigurationError if a library is missing.
  std::function<Backend()> load;
};

}  // namespace strata::nccl
