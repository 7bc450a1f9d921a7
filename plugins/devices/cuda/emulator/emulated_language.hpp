#pragma once

/// \file
/// The keywords and functions of CUDA C++ that our kernels use, for a plain C++ compiler. Blocks run one after another
/// on the calling thread. The threads of a block are fibers that switch where they wait for each other.

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
// A block's shared variables belong to the host thread, which runs one block at a time.
#define __shared__ static thread_local
