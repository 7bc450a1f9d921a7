#pragma once

/// \file
/// The words of CUDA C++ that our kernels use, for a compiler of plain C++. Blocks run one after another on the calling
/// thread, the threads of a block as fibers that change places where they must wait for each other.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulator/async_copy.hpp"
#include "emulator/collective.hpp"
#include "emulator/execution.hpp"
#include "emulator/intrinsics.hpp"
#include "emulator/matrix_unit.hpp"
#include "emulator/vector_types.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ static
// A block's variables are the calling thread's: no two blocks run at the same time on it.
#define __shared__ static thread_local
