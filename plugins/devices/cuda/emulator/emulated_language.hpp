#pragma once

/// \file
/// The keywords and functions of CUDA C++ that our kernels use, for a plain C++ compiler. Blocks run one after another
/// on the calling thread. The threads of a block are fibers that switch where they wait for each other. Functions that
/// a GPU approximates are exact here, except on a rough GPU.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulator/collective.hpp"
#include "emulator/execution.hpp"
#include "emulator/rough_arithmetic.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// A block's shared variables belong to the host thread, which runs one block at a time.
#define __shared__ static thread_local

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __expf(float value) { return strata::cuda::emulator::approximate_exp(value); }
inline float __fdividef(float a, float b) { return strata::cuda::emulator::approximate_quotient(a, b); }
inline int __float2int_rn(float value) { return static_cast<int>(std::nearbyint(value)); }
inline int __double2int_rn(double value) { return static_cast<int>(std::nearbyint(value)); }
/// One more than the number of the lowest set bit. 0 if none is set.
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline int __popc(unsigned bits) { return std::popcount(bits); }

template <class T>
T __ldg(const T* from) {
  return *from;
}

using std::max;
using std::min;

/// A plain read and write is atomic here, because blocks run one after another and threads switch only at barriers.
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
