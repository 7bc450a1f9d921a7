#pragma once

#include "language/dialect.hpp"

namespace strata::cuda {

__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }

}  // namespace strata::cuda
