#pragma once

#include "language/dialect.hpp"
#include "language/element.hpp"
#ifndef __CUDACC__
#include "strata/half.hpp"
#endif

/// \file
/// Conversions between element types and the types that kernels compute in. All round to nearest, ties to even.

namespace strata::cuda {

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }
__device__ __forceinline__ float widen(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ __forceinline__ float widen(Float16 value) {
#ifdef __CUDACC__
  return __half2float(__ushort_as_half(value.bits));
#else
  return emulator::half_to_float(value.bits);
#endif
}

__device__ __forceinline__ BFloat16 to_bfloat16(float value) {
#ifdef __CUDACC__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  return {to_bf16(value)};
#endif
}

__device__ __forceinline__ Float16 to_float16(float value) {
#ifdef __CUDACC__
  return {__half_as_ushort(__float2half_rn(value))};
#else
  return {to_f16(value)};
#endif
}

namespace detail {
template <class T>
struct Narrow {
  static __device__ __forceinline__ T from(float value) { return static_cast<T>(value); }
  static __device__ __forceinline__ T from(double value) { return static_cast<T>(value); }
};
template <>
struct Narrow<BFloat16> {
  static __device__ __forceinline__ BFloat16 from(float value) { return to_bfloat16(value); }
  static __device__ __forceinline__ BFloat16 from(double value) { return to_bfloat16(static_cast<float>(value)); }
};
template <>
struct Narrow<Float16> {
  static __device__ __forceinline__ Float16 from(float value) { return to_float16(value); }
  static __device__ __forceinline__ Float16 from(double value) { return to_float16(static_cast<float>(value)); }
};
}  // namespace detail

/// Rounds a computed value to an element.
template <class T>
__device__ __forceinline__ T narrow(float value) {
  return detail::Narrow<T>::from(value);
}
template <class T>
__device__ __forceinline__ T narrow(double value) {
  return detail::Narrow<T>::from(value);
}

/// Packs two neighbouring elements into the 32 bits of a matrix fragment. `low` is the element at the lower address.
template <class T>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  return narrow<T>(low).bits | static_cast<std::uint32_t>(narrow<T>(high).bits) << 16;
}

}  // namespace strata::cuda
