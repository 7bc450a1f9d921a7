#pragma once

#include "language/dialect.hpp"

/// \file
/// Sums and maxima over a warp and a block. Every thread takes part and gets the same bits, because the order of
/// additions depends only on the size of the block.

namespace strata::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullMask = 0xFFFFFFFFU;

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The maximum of two numbers. NaN if either is NaN, so that no kernel hides it.
struct Maximum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

/// The thread's number in its block.
__device__ __forceinline__ int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
__device__ __forceinline__ int block_threads() { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }

/// Reduces over groups of Width neighbouring lanes. Width is a power of two.
template <int Width = kWarpSize, class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, const Combine& combine) {
#pragma unroll
  for (int distance = Width / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kFullMask, value, distance));
  }
  return value;
}

/// The sum over such a group. T: float, double or an integer.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce(value, Sum{});
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  return warp_reduce(value, Maximum{});
}

/// Reduces over a block of whole warps. Synchronises the block: when a thread returns, all threads have read the
/// partial results.
template <class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, T neutral, const Combine& combine) {
  __shared__ T partial[kWarpSize];
  const int warp = thread_rank() / kWarpSize;
  const int lane = thread_rank() % kWarpSize;
  value = warp_reduce(value, combine);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < block_threads() / kWarpSize ? partial[lane] : neutral, combine);
  __syncthreads();
  return value;
}

template <class T>
__device__ __forceinline__ T block_sum(T value) {
  return block_reduce(value, T{0}, Sum{});
}
template <class T>
__device__ __forceinline__ T block_max(T value) {
  return block_reduce(value, -static_cast<T>(INFINITY), Maximum{});
}

}  // namespace strata::cuda
