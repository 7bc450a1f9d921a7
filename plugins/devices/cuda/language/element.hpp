#pragma once

#include <cstdint>
#include <type_traits>

/// \file
/// What host code and kernels both name. Plain C++.

namespace strata::cuda {

/// A stream of the CUDA runtime (cudaStream_t), opaque to host code. In the emulator a stream may be null.
using Stream = void*;

/// bf16: the upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

/// f16: IEEE binary16.
struct Float16 {
  std::uint16_t bits;
};

/// The type in which elements are computed and summed: double for double, float for the others.
template <class T>
using Accumulate = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace strata::cuda
