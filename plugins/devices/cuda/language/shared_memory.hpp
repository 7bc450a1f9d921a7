#pragma once

#include "language/dialect.hpp"

namespace strata::cuda {

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
