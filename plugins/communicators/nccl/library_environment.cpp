#include "library_environment.hpp"

#include <cstdlib>

namespace strata::nccl {

void set_library_environment() {
  constexpr int kKeep = 0;
  // NCCL connects all ranks of a communicator when it creates it. Since NCCL 2.22 the default is to connect at the
  // first use of each algorithm, within a step. That allocates memory while kernels wait for other ranks.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", kKeep);
  // Streams that share a hardware connection to the GPU wait for each other: messages for collectives, and collectives
  // for kernels. CUDA's default of 8 connections is fewer than a rank of a pipeline uses.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
}

}  // namespace strata::nccl
