#pragma once

#include "language/dialect.hpp"

namespace strata::cuda {

// Asynchronous copies from global to shared memory (cp.async), which overlap with the thread's work. A thread sees its
// own copies after wait_copies(). It sees other threads' copies after a barrier that follows their wait_copies().

/// Starts a copy of 16 bytes between addresses that are aligned to 16 bytes. If `valid` is false, writes zeros and does
/// not read.
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

/// Returns when at most Pending of the thread's newest groups are in flight.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#else
  emulator::wait_copies(Pending);
#endif
}

/// The block's dynamic shared memory, with the size of the launch (Geometry::shared_bytes), aligned to 16 bytes.
template <class T = unsigned char>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char strata_dynamic_shared[];
  return reinterpret_cast<T*>(strata_dynamic_shared);
#else
  return reinterpret_cast<T*>(emulator::dynamic_shared_memory());
#endif
}

}  // namespace strata::cuda
