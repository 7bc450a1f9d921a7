#pragma once

#include "language/dialect.hpp"

/// \file
/// Copies from global to shared memory beside the thread's work (cp.async). A thread sees its own copies after
/// wait_copies, other threads' after a barrier behind that.

namespace strata::cuda {

/// Starts a copy of 16 bytes between addresses aligned to as many; writes zeros where `valid` is false, and then reads
/// nothing.
__device__ __forceinline__ void copy_async_16(void* shared, const void* global, bool valid = true) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(valid ? 16 : 0)
               : "memory");
#else
  emulator::copy_async(shared, global, valid);
#endif
}

/// Closes the group of the copies started since the last call.
__device__ __forceinline__ void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::commit_copies();
#endif
}

/// Returns when at most Pending of the thread's newest groups are under way.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#else
  emulator::wait_copies(Pending);
#endif
}

}  // namespace strata::cuda
