#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu_runtime.hpp"
#include "nccl_library.hpp"

namespace strata::nccl {

/// The libraries below the communicator.
struct Backend {
  std::shared_ptr<NcclLibrary> nccl;
  std::shared_ptr<GpuRuntime> gpu;
  /// The runtime that a device's streams must belong to.
  std::string runtime;
};

/// Called when the first rank connects: a plan needs no library. \throws ConfigurationError if there is none.
using LoadBackend = std::function<Backend()>;

}  // namespace strata::nccl
